import { askAnew } from '../shared/ask-people.ts';
import type { PreparedTransfer } from '../shared/chain/adapter.ts';
import { familyOf } from '../shared/chain/families.ts';
import { lockWallet } from '../shared/db/agents.ts';
import { hasAttempts } from '../shared/db/attempts.ts';
import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { countOpenSlots, findSlot, insertSlot, moveSlot, placesOf, type SlotRow } from '../shared/db/slots.ts';
import {
  markAwaiting,
  markSigning,
  markWaiting,
  putNotice,
  replaceDecision,
  type TransactionRow,
  takeLongestWaiting,
} from '../shared/db/transactions.ts';
import { describeFreeze } from '../shared/domain/describe-freeze.ts';
import type { Decision } from '../shared/domain/policy/engine.ts';
import type { TransactionPayload } from '../shared/domain/receipt.ts';
import { replacedSlotsMax } from '../shared/domain/slot.ts';
import { endUnsent, type Failure } from '../shared/end-unsent.ts';
import { judgeStored } from '../shared/judge-payment.ts';
import { noteEvaluation } from '../shared/note-evaluation.ts';
import { denialFailure, findRejection, inactiveFailure } from '../shared/payment-failures.ts';
import { reservePayment } from '../shared/reserve-payment.ts';
import { lockAgentAndTransaction } from './end-payment.ts';
import { notFound } from './failures.ts';
import { holdFrozen } from './hold-frozen.ts';
import { type Allotment, intentOf, type PolicyKey, receiptFor } from './issue-receipt.ts';
import { holdFee, type Shortage, takeHolds } from './take-holds.ts';

export type AllotResult =
  | { readonly outcome: 'allotted'; readonly allotment: Allotment }
  /** As many payments of the wallet are in flight as may be: wait for `slotFree`. */
  | { readonly outcome: 'wait' }
  /** A person is asked: wait for the answer. */
  | { readonly outcome: 'awaiting' }
  /** It is frozen: wait until that is lifted. */
  | { readonly outcome: 'frozen' }
  /** Only money for the fee is missing, and others may not need all of what they hold. */
  | { readonly outcome: 'unfunded'; readonly message: string }
  /** `wake`: the payment that has waited longest for the nonce that was given back. */
  | { readonly outcome: 'denied'; readonly wake?: string }
  | { readonly outcome: 'ended' }
  /** What the chain said is missing or was said to an earlier version: prepare (again). */
  | { readonly outcome: 'unprepared' }
  /** Signed before and stored, or its nonce is to be used up: the payment is not to be signed (again). */
  | { readonly outcome: 'signed' };

export interface AllotDependencies {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly policyKey: PolicyKey;
  /** Payments with a nonce at most, for each wallet and chain. */
  readonly maxInFlight: number;
}

/**
 * Second evaluation, hold, place and what is to be signed, with the policy receipt for it, in one database transaction.
 * A repeat before anything was sent judges again and gives the same place and payload with a fresh receipt.
 * @param prepared what the chain said; absent when a payload was made before
 */
export function createAllot({ pool, clock, policyKey, maxInFlight }: AllotDependencies) {
  return async function allot(transactionId: string, prepared?: PreparedTransfer): Promise<AllotResult> {
    return inTransaction(pool, async (db): Promise<AllotResult> => {
      const { agent, row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return { outcome: 'ended' } as const;
      const slot = await findSlot(db, { transactionId });
      if (await hasAttempts(db, { transactionId })) return { outcome: 'signed' } as const;
      if (slot && (slot.purpose !== 'payment' || slot.wanted !== null)) return { outcome: 'signed' } as const;
      if (agent.status !== 'active') return deny(db, row, inactiveFailure(row));
      const now = await clock(db);
      const evaluation = await judgeStored(db, row, now);
      const { decision } = evaluation;
      if (decision.outcome === 'deny') {
        await replaceDecision(db, { id: row.id, decision });
        await noteEvaluation(db, row, { evaluation, stage: 'second' });
        return deny(db, row, denialFailure(decision));
      }
      const wallet = await lockWallet(db, { id: row.wallet_id });
      if (!wallet) throw notFound(`Wallet ${row.wallet_id}`);
      const isOutdated = slot !== undefined && familyOf(row.chain).isOutdated(slot.payload, now);
      if ((!slot || isOutdated) && !isComplete(prepared)) return { outcome: 'unprepared' } as const;
      if (!slot && prepared) {
        const shortage = await takeHolds(db, { row, prepared });
        if (shortage) return lack(db, row, shortage);
      }
      const rejection = await findRejection(db, row);
      if (rejection) return deny(db, row, rejection);
      if (await isAwaiting(db, row, { decision, now })) return { outcome: 'awaiting' } as const;
      const freeze = await holdFrozen(db, row);
      if (freeze) {
        await putNotice(db, { id: row.id, notice: describeFreeze(freeze) });
        return { outcome: 'frozen' } as const;
      }
      if (slot && row.notice !== null) await putNotice(db, { id: row.id, notice: null });
      const taken =
        slot && !isOutdated
          ? { outcome: 'taken' as const, payload: slot.payload, replaces: slot.former_slots }
          : await takeSlot(db, { row, slot, prepared: prepared!, maxInFlight });
      if (taken.outcome === 'lacking') return lack(db, row, taken.shortage);
      if (taken.outcome !== 'taken') return { outcome: taken.outcome };
      await reservePayment(db, row, now);
      const { payload, replaces } = taken;
      // Before the database transaction ends: a freeze that comes later finds it given, one that came before has held it back.
      const allotment = await receiptFor(policyKey, { row, wallet, payload, replaces, now });
      return { outcome: 'allotted', allotment };
    });
  };
}

async function deny(
  db: Queryable,
  row: TransactionRow,
  failure: Failure,
): Promise<AllotResult & { outcome: 'denied' | 'signed' }> {
  if ((await endUnsent(db, row, failure)) === 'filling') return { outcome: 'signed' };
  const wake = await takeLongestWaiting(db, { walletId: row.wallet_id, chain: row.chain });
  return wake === undefined ? { outcome: 'denied' } : { outcome: 'denied', wake };
}

/** A history of an earlier version may carry an answer without balances; nobody may guess them. */
function isComplete(prepared: PreparedTransfer | undefined): prepared is PreparedTransfer {
  return (prepared as Partial<PreparedTransfer> | undefined)?.balanceMinor !== undefined;
}

/** Whether a person still has to agree; asks those whom the second evaluation names and nobody has asked. */
async function isAwaiting(
  db: Queryable,
  row: TransactionRow,
  { decision, now }: { decision: Decision; now: Date },
): Promise<boolean> {
  if (decision.approvals.length === 0 && row.status_detail !== 'awaiting_approval') return false;
  const isWaiting = await askAnew(db, row, { decision, now });
  await markAwaiting(db, { id: row.id, isAwaiting: isWaiting });
  return isWaiting;
}

/** Nothing is signed of it: it waits for money, or ends. */
async function lack(
  db: Queryable,
  row: TransactionRow,
  { message, mayPass }: Shortage,
): Promise<AllotResult & { outcome: 'unfunded' | 'denied' | 'signed' }> {
  return mayPass ? { outcome: 'unfunded', message } : deny(db, row, { code: 'insufficient_funds', message });
}

type TakeResult =
  | { readonly outcome: 'taken'; readonly payload: TransactionPayload; readonly replaces: readonly string[] }
  | { readonly outcome: 'wait' | 'unprepared' }
  | { readonly outcome: 'lacking'; readonly shortage: Shortage };

/** Gives the payment a place on its chain, or another one in the place of one that has become outdated. */
async function takeSlot(
  db: Queryable,
  {
    row,
    slot,
    prepared,
    maxInFlight,
  }: { row: TransactionRow; slot: SlotRow | undefined; prepared: PreparedTransfer; maxInFlight: number },
): Promise<TakeResult> {
  const place = { walletId: row.wallet_id, chain: row.chain };
  const family = familyOf(row.chain);
  if (!slot && (await countOpenSlots(db, place)) >= maxInFlight) return wait(db, row);
  const built = await family.build({
    intent: intentOf(row, prepared.maxFeeMinor),
    from: row.from_address,
    prepared,
    places: placesOf(db, place),
    ...(slot && { former: slot.payload }),
  });
  if (built.outcome !== 'built') return built.outcome === 'wait' ? wait(db, row) : { outcome: 'unprepared' };
  const { payload, nonce, coins } = built;
  // What was foreseen did not know which coins are free, or was for another time.
  const shortage = await holdFee(db, { row, prepared, feeMinor: family.maxFeeOf(payload) });
  if (shortage) return { outcome: 'lacking', shortage };
  if (!slot) {
    await insertSlot(db, { ...place, nonce, coins, transactionId: row.id, payload });
    await markSigning(db, { id: row.id, nonce });
    return { outcome: 'taken', payload, replaces: [] };
  }
  const former = family.slotOf(slot.payload, row.from_address);
  await moveSlot(db, { transactionId: row.id, payload, former });
  return { outcome: 'taken', payload, replaces: [...slot.former_slots, former].slice(-replacedSlotsMax) };
}

async function wait(db: Queryable, row: TransactionRow): Promise<{ readonly outcome: 'wait' }> {
  await markWaiting(db, { id: row.id });
  return { outcome: 'wait' };
}
