import { hex } from '@scure/base';
import { scriptOf } from './parse-address.ts';
import { readRaw } from './unsigned.ts';

/** What bytes that a wallet signed are for: they pay somebody, or only bring its coins back to it. */
export function purposeOf(raw: string, { from, chain }: { from: string; chain: string }): 'payment' | 'noop' {
  const transaction = readRaw(raw);
  const own = hex.encode(scriptOf(from, chain));
  const isOwn = transaction.outputsLength === 1 && hex.encode(transaction.getOutput(0).script!) === own;
  return isOwn ? 'noop' : 'payment';
}
