import { askAnew } from '../shared/ask-people.ts';
import type { PreparedTransfer } from '../shared/chain/adapter.ts';
import { buildTransfer } from '../shared/chain/evm/build-transfer.ts';
import { lockWallet } from '../shared/db/agents.ts';
import { hasAttempts } from '../shared/db/attempts.ts';
import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { countOpenSlots, findSlot, insertSlot, nextNonce } from '../shared/db/slots.ts';
import {
  markAwaiting,
  markSigning,
  markWaiting,
  replaceDecision,
  type TransactionRow,
  takeLongestWaiting,
} from '../shared/db/transactions.ts';
import type { Decision } from '../shared/domain/policy/engine.ts';
import type { TransactionPayload } from '../shared/domain/receipt.ts';
import { endUnsent, type Failure } from '../shared/end-unsent.ts';
import { judgeStored } from '../shared/judge-payment.ts';
import { noteEvaluation } from '../shared/note-evaluation.ts';
import { denialFailure, findRejection, inactiveFailure } from '../shared/payment-failures.ts';
import { reservePayment } from '../shared/reserve-payment.ts';
import { lockAgentAndTransaction } from './end-payment.ts';
import { notFound } from './failures.ts';
import { type Allotment, intentOf, type PolicyKey, receiptFor } from './issue-receipt.ts';
import { takeHolds } from './take-holds.ts';

export type AllotResult =
  | { readonly outcome: 'allotted'; readonly allotment: Allotment }
  /** As many payments of the wallet are in flight as may be: wait for `slotFree`. */
  | { readonly outcome: 'wait' }
  /** A person is asked: wait for the answer. */
  | { readonly outcome: 'awaiting' }
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
 * Second evaluation, hold, nonce and what is to be signed, in one database transaction; then the policy receipt for it.
 * A repeat before anything was sent judges again and gives the same nonce and payload with a fresh receipt.
 * @param prepared what the chain said; absent when a payload was made before
 */
export function createAllot({ pool, clock, policyKey, maxInFlight }: AllotDependencies) {
  return async function allot(transactionId: string, prepared?: PreparedTransfer): Promise<AllotResult> {
    const given = await inTransaction(pool, async (db) => {
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
      if (!slot) {
        if (!isComplete(prepared)) return { outcome: 'unprepared' } as const;
        const shortage = await takeHolds(db, { row, prepared });
        if (shortage?.mayPass) return { outcome: 'unfunded', message: shortage.message } as const;
        if (shortage) return deny(db, row, { code: 'insufficient_funds', message: shortage.message });
      }
      const rejection = await findRejection(db, row);
      if (rejection) return deny(db, row, rejection);
      if (await isAwaiting(db, row, { decision, now })) return { outcome: 'awaiting' } as const;
      const payload = slot?.payload ?? (await takeSlot(db, { row, prepared: prepared!, maxInFlight }));
      if (!payload) return { outcome: 'wait' } as const;
      await reservePayment(db, row, now);
      return { outcome: 'allotted', row, wallet, payload, now } as const;
    });
    if (given.outcome !== 'allotted') return given;
    return { outcome: 'allotted', allotment: await receiptFor(policyKey, given) };
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

async function takeSlot(
  db: Queryable,
  { row, prepared, maxInFlight }: { row: TransactionRow; prepared: PreparedTransfer; maxInFlight: number },
): Promise<TransactionPayload | undefined> {
  const place = { walletId: row.wallet_id, chain: row.chain };
  if ((await countOpenSlots(db, place)) >= maxInFlight) {
    await markWaiting(db, { id: row.id });
    return undefined;
  }
  const nonce = await nextNonce(db, { ...place, minedCount: prepared.minedCount });
  const transaction = buildTransfer({ intent: intentOf(row, prepared.maxFeeMinor), nonce, prepared });
  const payload: TransactionPayload = { kind: 'evm-transaction', transaction };
  await insertSlot(db, { ...place, nonce, transactionId: row.id, payload });
  await markSigning(db, { id: row.id, nonce });
  return payload;
}
