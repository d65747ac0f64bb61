import type { SignerContext } from './context.ts';
import { Refusal } from './refusal.ts';

/** @throws Refusal `records_missing` before this signer has what the others recorded while it was away */
export function requireRecords(context: SignerContext, keyId: string): void {
  if (context.store.hasRecords(keyId)) return;
  throw new Refusal(
    'records_missing',
    `signer ${context.party} signs nothing with key ${keyId} before it has the records of the others: merge them`,
  );
}
