import type { PreparedTransfer } from '../shared/chain/adapter.ts';
import { familyOf } from '../shared/chain/families.ts';
import { type Hold, heldBy, putHolds, raiseHold } from '../shared/db/holds.ts';
import type { Queryable } from '../shared/db/pool.ts';
import type { TransactionRow } from '../shared/db/transactions.ts';
import { formatAmount } from '../shared/domain/money.ts';

export interface Shortage {
  readonly message: string;
  /** Only money for the fee is missing. */
  readonly mayPass: boolean;
}

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
  const shortage = await findShortage(db, { row, prepared });
  if (shortage) return shortage;
  await putHolds(db, {
    ownerId: row.id,
    walletId: row.wallet_id,
    chain: row.chain,
    holds: holdsOf(row, prepared),
  });
  return undefined;
}

/** Why amount and highest fee cannot be held, as things are now; see {@link takeHolds}. */
export async function findShortage(
  db: Queryable,
  { row, prepared }: { row: TransactionRow; prepared: PreparedTransfer },
): Promise<Shortage | undefined> {
  const place = { walletId: row.wallet_id, chain: row.chain };
  for (const { asset, amountMinor } of holdsOf(row, prepared)) {
    const isNative = asset === 'native';
    const balance = BigInt(isNative ? prepared.nativeBalanceMinor : prepared.balanceMinor);
    const held = await heldBy(db, { ...place, asset, atBlock: prepared.atBlock, exceptOwnerId: row.id });
    if (balance - held >= amountMinor) continue;
    const decimals = isNative ? familyOf(row.chain).feeDecimals : row.decimals;
    const write = (minor: bigint) => formatAmount(minor, decimals);
    const name = asset === row.asset ? row.token : "the chain's own coin";
    const purpose = isNative ? `${write(amountMinor)} with the highest fee` : write(amountMinor);
    const message = `The wallet holds ${write(balance)} of ${name}, of which ${write(held)} are held for other payments under way; ${purpose} are needed.`;
    return { message, mayPass: isNative && row.asset !== 'native' };
  }
  return undefined;
}

/**
 * Holds a fee, where that is more than was held when the payment was prepared. Hold the wallet's lock.
 * @returns why it cannot be held; nothing when it is held
 */
export async function holdFee(
  db: Queryable,
  { row, prepared, feeMinor }: { row: TransactionRow; prepared: PreparedTransfer; feeMinor: bigint },
): Promise<Shortage | undefined> {
  const needed = feeMinor + (row.asset === 'native' ? BigInt(row.amount_minor) : 0n);
  const message = await raiseNativeHold(db, { row, needed, ...prepared });
  return message === undefined ? undefined : { message, mayPass: row.asset !== 'native' };
}

/**
 * Holds so much of the chain's own coin for a payment, unless as much is held. Hold the wallet's lock.
 * @returns why it cannot be
 */
export async function raiseNativeHold(
  db: Queryable,
  {
    row,
    needed,
    atBlock,
    nativeBalanceMinor,
  }: { row: TransactionRow; needed: bigint; atBlock: number; nativeBalanceMinor: string },
): Promise<string | undefined> {
  const place = { walletId: row.wallet_id, chain: row.chain, asset: 'native' };
  const held = await heldBy(db, { ...place, atBlock, exceptOwnerId: row.id });
  const balance = BigInt(nativeBalanceMinor);
  if (balance - held < needed) {
    const write = (minor: bigint) => formatAmount(minor, familyOf(row.chain).feeDecimals);
    return `Its transaction may take ${write(needed)} of the chain's own coin; the wallet holds ${write(balance)}, of which ${write(held)} are held for other payments.`;
  }
  await raiseHold(db, { ownerId: row.id, ...place, amountMinor: needed });
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
