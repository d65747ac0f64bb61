import { type Address, encodeFunctionData, erc20Abi, hexToBigInt, parseUnits, sliceHex } from 'viem';
import type { CrashAgent } from './agents.ts';
import type { Mined } from './chain.ts';
import type { Asked } from './load.ts';
import { type TokenSymbol, tokens } from './plan.ts';
import type { StoredPayment } from './stored.ts';

/** A round when nothing of it is pending any more: what was asked, what the service says, what the chain has. */
export interface RoundOutcome {
  readonly agents: readonly CrashAgent[];
  readonly asked: readonly Asked[];
  /** All rows of the round's agents. */
  readonly stored: readonly StoredPayment[];
  /** By the agent's id. */
  readonly mined: ReadonlyMap<string, readonly Mined[]>;
  readonly counts: ReadonlyMap<string, number>;
  readonly after: ReadonlyMap<string, { readonly wei: bigint; readonly minorUnits: bigint }>;
  readonly usdcAddress: Address;
}

/** What a payment is for, in minor units. */
export const minorOf = ({ amount, token }: Pick<StoredPayment, 'amount' | 'token'>): bigint =>
  parseUnits(amount, tokens[token].decimals);

/** Whether a transaction does what a payment is for. */
export function pays({ to, valueWei, data }: Mined, row: StoredPayment, usdcAddress: Address): boolean {
  const amount = minorOf(row);
  if (row.token === 'ETH') return to === row.to_address.toLowerCase() && valueWei === amount && data === '0x';
  const args = [row.to_address as Address, amount] as const;
  const wanted = encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args });
  return to === usdcAddress.toLowerCase() && valueWei === 0n && data.toLowerCase() === wanted.toLowerCase();
}

/** What a transaction moved, as the chain executed it. */
export function transferOf(
  { to, valueWei, data, succeeded }: Mined,
  usdcAddress: Address,
): { token: TokenSymbol; amount: bigint } {
  if (!succeeded) return { token: 'ETH', amount: 0n };
  if (to !== usdcAddress.toLowerCase()) return { token: 'ETH', amount: valueWei };
  return { token: 'USDC', amount: hexToBigInt(sliceHex(data, 36, 68)) };
}
