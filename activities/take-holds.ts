import type { PreparedTransfer } from '../shared/chain/adapter.ts';
import { type Hold, heldBy, putHolds } from '../shared/db/holds.ts';
import type { Queryable } from '../shared/db/pool.ts';
import type { TransactionRow } from '../shared/db/transactions.ts';
import { formatAmount } from '../shared/domain/money.ts';

export interface Shortage {
  readonly message: string;
  /** Only money for the fee is missing. */
  readonly mayPass: boolean;
}

/** Wei a coin, on every EVM chain. */
const nativeDecimals = 18;

/**
 * Holds amount and highest fee in the wallet's balance, if what is there has not been promised to others.
 * Hold the wallet's lock.
 * @param prepared balances and the block at which they were read
 * @returns why it cannot be held; nothing when it is held
 */
export async function takeHolds(
  db: Queryable,
  { row, prepared }: { row: TransactionRow; prepared: PreparedTransfer },
): Promise<Shortage | undefined> {
  const place = { walletId: row.wallet_id, chain: row.chain };
  const holds = holdsOf(row, prepared);
  for (const { asset, amountMinor } of holds) {
    const isNative = asset === 'native';
    const balance = BigInt(isNative ? prepared.nativeBalanceMinor : prepared.balanceMinor);
    const held = await heldBy(db, { ...place, asset, atBlock: prepared.atBlock, exceptOwnerId: row.id });
    if (balance - held >= amountMinor) continue;
    const decimals = isNative ? nativeDecimals : row.decimals;
    const write = (minor: bigint) => formatAmount(minor, decimals);
    const name = asset === row.asset ? row.token : "the chain's own coin";
    const purpose = isNative ? `${write(amountMinor)} with the highest fee` : write(amountMinor);
    const message = `The wallet holds ${write(balance)} of ${name}, of which ${write(held)} are held for other payments under way; ${purpose} are needed.`;
    return { message, mayPass: isNative && row.asset !== 'native' };
  }
  await putHolds(db, { ownerId: row.id, ...place, holds });
  return undefined;
}

function holdsOf(row: TransactionRow, { maxFeeMinor }: PreparedTransfer): Hold[] {
  const amountMinor = BigInt(row.amount_minor);
  const fee = BigInt(maxFeeMinor);
  if (row.asset === 'native') return [{ asset: 'native', amountMinor: amountMinor + fee }];
  return [
    { asset: row.asset, amountMinor },
    { asset: 'native', amountMinor: fee },
  ].filter((each) => each.amountMinor > 0n);
}
