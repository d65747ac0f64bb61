import { randomBytes } from 'node:crypto';
import { askAnew } from '../shared/ask-people.ts';
import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import {
  markX402Awaiting,
  stampX402Payment,
  storeX402Decision,
  type X402PaymentRow,
} from '../shared/db/x402-payments.ts';
import type { AuthorizationPayload } from '../shared/domain/receipt.ts';
import { type AuthorizationStamp, msLeftToSign, stampTimes } from '../shared/domain/x402.ts';
import { judgeStored } from '../shared/judge-payment.ts';
import { noteEvaluation } from '../shared/note-evaluation.ts';
import { denialFailure, findRejection, inactiveFailure } from '../shared/payment-failures.ts';
import { reservePayment } from '../shared/reserve-payment.ts';
import { authorizationOf, stampOf } from './authorization-of.ts';
import { endAndNote, endedSession } from './end-x402.ts';
import { holdFrozen } from './hold-frozen.ts';
import { type Allotment, authorizationReceipt, type PolicyKey } from './issue-receipt.ts';
import { lockX402 } from './lock-payment.ts';

export type StampAuthorizationResult =
  /** `leftMs`: so long signing makes sense. */
  | { readonly outcome: 'stamped'; readonly allotment: Allotment<AuthorizationPayload>; readonly leftMs: number }
  /** A person is asked: wait for the answer. */
  | { readonly outcome: 'awaiting' }
  /** It is frozen: wait until that is lifted. */
  | { readonly outcome: 'frozen' }
  /** What was stamped before is too old to be signed: wait until it is over. */
  | { readonly outcome: 'outdated' }
  /** Handed out before. */
  | { readonly outcome: 'issued' }
  /** It fails once what may have been signed is over. */
  | { readonly outcome: 'ending' }
  | { readonly outcome: 'failed' };

/**
 * Second evaluation, and the one authorisation that may be signed with the policy receipt for it, in one database
 * transaction. A repeat gives the same authorisation with a fresh receipt: the policies have judged, only agent and session
 * are looked at again.
 */
export function createStampAuthorization({
  pool,
  clock,
  policyKey,
}: {
  pool: Pool;
  clock: Clock;
  policyKey: PolicyKey;
}) {
  return async function stampAuthorization(ledgerId: string): Promise<StampAuthorizationResult> {
    return inTransaction(pool, async (db): Promise<StampAuthorizationResult> => {
      const { agent, session, row, wallet } = await lockX402(db, ledgerId);
      if (row.status === 'completed') return { outcome: 'issued' } as const;
      if (row.status === 'failed') return { outcome: 'failed' } as const;
      if (row.ending_code !== null) return { outcome: 'ending' } as const;
      if (agent.status !== 'active') return { outcome: await endAndNote(db, row, inactiveFailure(row)) } as const;
      if (session.status !== 'active') return { outcome: await endAndNote(db, row, endedSession(session)) } as const;
      const now = await clock(db);
      const given = stampOf(row) ? await again(db, { row, now }) : await judgeAndStamp(db, { row, now });
      if (given.outcome !== 'stamped') return given;
      const { stamp } = given;
      const payload = { kind: 'transfer-authorization' as const, authorization: authorizationOf(row, stamp) };
      const leftMs = msLeftToSign({ now, validBefore: stamp.validBefore, windowSeconds: row.window_seconds });
      // Before the database transaction ends: a freeze that comes later finds it given, one that came before has held it back.
      const allotment = await authorizationReceipt(policyKey, { row, wallet, payload, now });
      return { outcome: 'stamped', allotment, leftMs };
    });
  };
}

/** What is stamped, as far as what follows needs it. */
interface Stamped {
  readonly outcome: 'stamped';
  readonly stamp: AuthorizationStamp;
}
interface Standing {
  readonly row: X402PaymentRow;
  readonly now: Date;
}

async function again(
  db: Queryable,
  { row, now }: Standing,
): Promise<Stamped | { readonly outcome: 'outdated' | 'frozen' }> {
  const stamp = stampOf(row)!;
  const leftMs = msLeftToSign({ now, validBefore: stamp.validBefore, windowSeconds: row.window_seconds });
  if (leftMs <= 0) return { outcome: 'outdated' };
  return (await holdFrozen(db, row)) ? { outcome: 'frozen' } : { outcome: 'stamped', stamp };
}

async function judgeAndStamp(
  db: Queryable,
  { row, now }: Standing,
): Promise<Stamped | { readonly outcome: 'awaiting' | 'frozen' | 'failed' | 'ending' }> {
  const evaluation = await judgeStored(db, row, now);
  const { decision } = evaluation;
  if (decision.outcome === 'deny') {
    await storeX402Decision(db, { id: row.id, decisionId: row.decision_id!, decision });
    await noteEvaluation(db, row, { evaluation, stage: 'second' });
    return { outcome: await endAndNote(db, row, denialFailure(decision)) };
  }
  const rejection = await findRejection(db, row);
  if (rejection) return { outcome: await endAndNote(db, row, rejection) };
  if (decision.approvals.length > 0 || row.status_detail === 'awaiting_approval') {
    const isAwaiting = await askAnew(db, row, { decision, now });
    await markX402Awaiting(db, { id: row.id, isAwaiting });
    if (isAwaiting) return { outcome: 'awaiting' };
  }
  if (await holdFrozen(db, row)) return { outcome: 'frozen' };
  const nonce = `0x${randomBytes(32).toString('hex')}` as const;
  const stamp = { nonce, ...stampTimes({ now, windowSeconds: row.window_seconds }) };
  await stampX402Payment(db, { id: row.id, stamp });
  await reservePayment(db, row, now);
  return { outcome: 'stamped', stamp };
}
