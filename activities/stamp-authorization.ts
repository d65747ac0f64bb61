import { randomBytes } from 'node:crypto';
import { askAnew } from '../shared/ask-people.ts';
import type { WalletRow } from '../shared/db/agents.ts';
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
import { type Allotment, authorizationReceipt, type PolicyKey } from './issue-receipt.ts';
import { lockX402 } from './lock-payment.ts';

export type StampAuthorizationResult =
  /** `leftMs`: so long signing makes sense. */
  | { readonly outcome: 'stamped'; readonly allotment: Allotment<AuthorizationPayload>; readonly leftMs: number }
  /** A person is asked: wait for the answer. */
  | { readonly outcome: 'awaiting' }
  /** What was stamped before is too old to be signed: wait until it is over. */
  | { readonly outcome: 'outdated' }
  /** Handed out before. */
  | { readonly outcome: 'issued' }
  /** It fails once what may have been signed is over. */
  | { readonly outcome: 'ending' }
  | { readonly outcome: 'failed' };

/**
 * Second evaluation, and the one authorisation that may be signed, in one database transaction; then the policy receipt
 * for it. A repeat gives the same authorisation with a fresh receipt: the policies have judged, only agent and session
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
    const given = await inTransaction(pool, async (db) => {
      const { agent, session, row, wallet } = await lockX402(db, ledgerId);
      if (row.status === 'completed') return { outcome: 'issued' } as const;
      if (row.status === 'failed') return { outcome: 'failed' } as const;
      if (row.ending_code !== null) return { outcome: 'ending' } as const;
      if (agent.status !== 'active') return { outcome: await endAndNote(db, row, inactiveFailure(row)) } as const;
      if (session.status !== 'active') return { outcome: await endAndNote(db, row, endedSession(session)) } as const;
      const now = await clock(db);
      return stampOf(row) ? again({ row, wallet, now }) : judgeAndStamp(db, { row, wallet, now });
    });
    if (given.outcome !== 'stamped') return given;
    const { row, wallet, stamp, now } = given;
    const payload = { kind: 'transfer-authorization' as const, authorization: authorizationOf(row, stamp) };
    const leftMs = msLeftToSign({ now, validBefore: stamp.validBefore, windowSeconds: row.window_seconds });
    return {
      outcome: 'stamped',
      allotment: await authorizationReceipt(policyKey, { row, wallet, payload, now }),
      leftMs,
    };
  };
}

/** What is stamped, as far as what follows needs it. */
interface Stamped {
  readonly outcome: 'stamped';
  readonly row: X402PaymentRow;
  readonly wallet: WalletRow;
  readonly stamp: AuthorizationStamp;
  readonly now: Date;
}
interface Standing {
  readonly row: X402PaymentRow;
  readonly wallet: WalletRow;
  readonly now: Date;
}

function again({ row, wallet, now }: Standing): Stamped | { readonly outcome: 'outdated' } {
  const stamp = stampOf(row)!;
  const leftMs = msLeftToSign({ now, validBefore: stamp.validBefore, windowSeconds: row.window_seconds });
  return leftMs > 0 ? { outcome: 'stamped', row, wallet, stamp, now } : { outcome: 'outdated' };
}

async function judgeAndStamp(
  db: Queryable,
  { row, wallet, now }: Standing,
): Promise<Stamped | { readonly outcome: 'awaiting' | 'failed' | 'ending' }> {
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
  const nonce = `0x${randomBytes(32).toString('hex')}` as const;
  const stamp = { nonce, ...stampTimes({ now, windowSeconds: row.window_seconds }) };
  await stampX402Payment(db, { id: row.id, stamp });
  await reservePayment(db, row, now);
  return { outcome: 'stamped', row, wallet, stamp, now };
}
