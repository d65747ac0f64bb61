import type { ReplacementTerms } from '../shared/chain/adapter.ts';
import { buildNoop } from '../shared/chain/evm/build-transfer.ts';
import { chooseFees, type Fees, raiseFees } from '../shared/chain/evm/fees.ts';
import { lockWallet } from '../shared/db/agents.ts';
import { findAttempts } from '../shared/db/attempts.ts';
import type { Clock } from '../shared/db/clock.ts';
import { heldBy, raiseHold } from '../shared/db/holds.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { dropWish, findSlot, putPayload, type SlotRow } from '../shared/db/slots.ts';
import { putNotice, type TransactionRow } from '../shared/db/transactions.ts';
import { restartWaiting } from '../shared/db/waiting-attempts.ts';
import { formatAmount } from '../shared/domain/money.ts';
import type { TransactionPayload } from '../shared/domain/receipt.ts';
import { lockAgentAndTransaction } from './end-payment.ts';
import { notFound } from './failures.ts';
import { type Allotment, type PolicyKey, receiptFor } from './issue-receipt.ts';

/** Decimals of the native coin, on every EVM chain. */
const nativeDecimals = 18;

/**
 * - `none`: nobody wants it any more, or one of the attempts is in a block.
 * - `refused`: it cannot be had now; the payment's notice says why. What is not for speed is tried again later.
 */
export type AllotReplacementResult =
  | { readonly outcome: 'allotted'; readonly allotment: Allotment; readonly version: number }
  | { readonly outcome: 'none' | 'refused' };

/**
 * What is to be signed in place of what was signed at a payment's nonce: the same with higher fees, or nothing at all.
 * No policy is asked: the nonce is in use, and nothing more is paid but the fee. A repeat before it was signed gives the
 * same with a fresh receipt.
 */
export function createAllotReplacement({ pool, clock, policyKey }: { pool: Pool; clock: Clock; policyKey: PolicyKey }) {
  return async function allotReplacement(
    transactionId: string,
    terms: ReplacementTerms,
  ): Promise<AllotReplacementResult> {
    const given = await inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      const slot = await findSlot(db, { transactionId });
      if (row.status !== 'pending' || !slot) return { outcome: 'none' } as const;
      const attempts = await findAttempts(db, { transactionId });
      if (attempts.some((each) => each.block_number !== null)) {
        await dropWish(db, { transactionId });
        return { outcome: 'none' } as const;
      }
      const wallet = await lockWallet(db, { id: row.wallet_id });
      if (!wallet) throw notFound(`Wallet ${row.wallet_id}`);
      const isSigned = attempts.some((each) => each.version === slot.version);
      const isFirst = attempts.length === 0;
      // What is signed first is the payment itself; that is not done here.
      if (slot.wanted === null && (isSigned || (isFirst && slot.purpose === 'payment')))
        return { outcome: 'none' } as const;
      const now = await clock(db);
      if (slot.wanted === null) {
        const { payload, purpose, version } = slot;
        return { outcome: 'allotted', row, wallet, now, payload, purpose: kindOf(purpose), version } as const;
      }
      const next = await plan(db, { row, slot, terms, isFirst });
      if ('refusal' in next) {
        await refuse(db, { row, slot, notice: next.refusal });
        return { outcome: 'refused' } as const;
      }
      await putPayload(db, { transactionId, ...next });
      await putNotice(db, { id: row.id, notice: null });
      const { payload, purpose } = next;
      const version = slot.version + 1;
      return { outcome: 'allotted', row, wallet, now, payload, purpose: kindOf(purpose), version } as const;
    });
    if (given.outcome !== 'allotted') return given;
    return { outcome: 'allotted', allotment: await receiptFor(policyKey, given), version: given.version };
  };
}

/** The signers refuse it: what was signed before stands. */
export function createDropReplacement({ pool }: { pool: Pool }) {
  return async function dropReplacement(transactionId: string, reason: string): Promise<void> {
    await inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      const slot = await findSlot(db, { transactionId });
      if (row.status !== 'pending' || !slot) return;
      await refuse(db, { row, slot, notice: `The signers refuse to replace its transaction: ${reason}.` });
    });
  };
}

const kindOf = (purpose: SlotRow['purpose']) => (purpose === 'payment' ? 'payment' : 'noop');

type Plan =
  | { readonly payload: TransactionPayload; readonly purpose: SlotRow['purpose'] }
  | { readonly refusal: string };

async function plan(
  db: Queryable,
  { row, slot, terms, isFirst }: { row: TransactionRow; slot: SlotRow; terms: ReplacementTerms; isFirst: boolean },
): Promise<Plan> {
  const purpose = slot.wanted === null || slot.wanted === 'speed_up' ? slot.purpose : slot.wanted;
  const before = slot.payload.transaction;
  const fees = feesFor({ row, before, terms, isFirst });
  if (!fees)
    return {
      refusal: `Its transaction offers ${before.maxFeePerGasWei} wei for a unit of gas; a replacement would have to offer a tenth more, and the ceiling is ${terms.ceilingWei} wei.`,
    };
  const transaction =
    purpose === 'payment'
      ? { ...before, ...fees }
      : buildNoop({ chain: row.chain, address: row.from_address, nonce: Number(slot.nonce), fees });
  const shortage = await holdFee(db, { row, transaction, terms });
  return shortage === undefined
    ? { payload: { kind: 'evm-transaction', transaction }, purpose }
    : { refusal: shortage };
}

function feesFor({
  row,
  before,
  terms,
  isFirst,
}: {
  row: TransactionRow;
  before: TransactionPayload['transaction'];
  terms: ReplacementTerms;
  isFirst: boolean;
}): { maxFeePerGasWei: string; maxPriorityFeePerGasWei: string } | undefined {
  const market = { baseFeeWei: BigInt(terms.baseFeeWei), tipWei: BigInt(terms.tipWei) };
  const ceilingWei = BigInt(terms.ceilingWei);
  const signed = {
    maxFeePerGasWei: BigInt(before.maxFeePerGasWei),
    maxPriorityFeePerGasWei: BigInt(before.maxPriorityFeePerGasWei),
  };
  const fees: Fees | undefined = isFirst
    ? market.baseFeeWei + market.tipWei > ceilingWei
      ? undefined
      : chooseFees({ chain: row.chain, ...market, ceilingWei })
    : raiseFees({ before: signed, ...market, ceilingWei });
  return (
    fees && {
      maxFeePerGasWei: fees.maxFeePerGasWei.toString(),
      maxPriorityFeePerGasWei: fees.maxPriorityFeePerGasWei.toString(),
    }
  );
}

/** Holds what the replacement may cost, where that is more than is held. @returns why that cannot be */
async function holdFee(
  db: Queryable,
  {
    row,
    transaction,
    terms: { atBlock, nativeBalanceMinor },
  }: { row: TransactionRow; transaction: TransactionPayload['transaction']; terms: ReplacementTerms },
): Promise<string | undefined> {
  const neededWei = BigInt(transaction.valueWei) + BigInt(transaction.gas) * BigInt(transaction.maxFeePerGasWei);
  const place = { walletId: row.wallet_id, chain: row.chain, asset: 'native' };
  const held = await heldBy(db, { ...place, atBlock, exceptOwnerId: row.id });
  const balanceWei = BigInt(nativeBalanceMinor);
  if (balanceWei - held < neededWei) {
    const write = (wei: bigint) => formatAmount(wei, nativeDecimals);
    return `Replacing its transaction may cost ${write(neededWei)} of the chain's own coin; the wallet holds ${write(balanceWei)}, of which ${write(held)} are held for other payments.`;
  }
  await raiseHold(db, { ownerId: row.id, ...place, amountMinor: neededWei });
  return undefined;
}

/** Speed is given up, and asked for again after as many blocks as before; the nonce still has to be used up. */
async function refuse(
  db: Queryable,
  { row, slot, notice }: { row: TransactionRow; slot: SlotRow; notice: string },
): Promise<void> {
  await putNotice(db, { id: row.id, notice });
  if (slot.wanted !== 'speed_up') return;
  await dropWish(db, { transactionId: row.id });
  await restartWaiting(db, { transactionId: row.id });
}
