import type { ReplacementTerms } from '../shared/chain/adapter.ts';
import { familyOf } from '../shared/chain/families.ts';
import { lockWallet } from '../shared/db/agents.ts';
import { findAttempts } from '../shared/db/attempts.ts';
import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { dropWish, findSlot, putPayload, type SlotRow } from '../shared/db/slots.ts';
import { putNotice, type TransactionRow } from '../shared/db/transactions.ts';
import { restartWaiting } from '../shared/db/waiting-attempts.ts';
import { describeFreeze } from '../shared/domain/describe-freeze.ts';
import type { TransactionPayload } from '../shared/domain/receipt.ts';
import { lockAgentAndTransaction } from './end-payment.ts';
import { notFound } from './failures.ts';
import { holdFrozen } from './hold-frozen.ts';
import { type Allotment, type PolicyKey, receiptFor } from './issue-receipt.ts';
import { raiseNativeHold } from './take-holds.ts';

/**
 * - `none`: nobody wants it any more, or one of the attempts is in a block.
 * - `refused`: it cannot be had now, as while it is frozen; the payment's notice says why. What is not for speed is tried again later.
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
    return inTransaction(pool, async (db): Promise<AllotReplacementResult> => {
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
      const freeze = await holdFrozen(db, row);
      if (freeze) {
        await putNotice(db, { id: row.id, notice: describeFreeze(freeze) });
        return { outcome: 'refused' } as const;
      }
      const now = await clock(db);
      const allow = async (next: { payload: TransactionPayload; purpose: SlotRow['purpose'] }, version: number) => {
        await putNotice(db, { id: row.id, notice: null });
        const { payload, purpose } = next;
        const allotment = await receiptFor(policyKey, { row, wallet, now, payload, purpose: kindOf(purpose) });
        return { outcome: 'allotted', allotment, version } as const;
      };
      if (slot.wanted === null) return allow(slot, slot.version);
      const next = await plan(db, { row, slot, terms, isFirst });
      if ('refusal' in next) {
        await refuse(db, { row, slot, notice: next.refusal });
        return { outcome: 'refused' } as const;
      }
      await putPayload(db, { transactionId, ...next });
      return allow(next, slot.version + 1);
    });
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
  const family = familyOf(row.chain);
  const replaced = family.replace({
    ...{ before: slot.payload, isSigned: !isFirst, purpose: kindOf(purpose) },
    ...{ from: row.from_address, terms },
  });
  if ('refusal' in replaced) return replaced;
  const { payload } = replaced;
  const paid = purpose === 'payment' && row.asset === 'native' ? BigInt(row.amount_minor) : 0n;
  const refusal = await raiseNativeHold(db, { row, needed: paid + family.maxFeeOf(payload), ...terms });
  return refusal === undefined ? { payload, purpose } : { refusal };
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
