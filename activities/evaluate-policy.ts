import { askPeople } from '../shared/ask-people.ts';
import { approvalsOfPayment } from '../shared/db/approvals.ts';
import { findAttempts } from '../shared/db/attempts.ts';
import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { findSlot } from '../shared/db/slots.ts';
import { storeDecision, type TransactionRow } from '../shared/db/transactions.ts';
import { endUnsent } from '../shared/end-unsent.ts';
import { newId } from '../shared/ids.ts';
import { judgeStored } from '../shared/judge-payment.ts';
import { noteEvaluation } from '../shared/note-evaluation.ts';
import { denialFailure, inactiveFailure } from '../shared/payment-failures.ts';
import { reservePayment } from '../shared/reserve-payment.ts';
import { lockAgentAndTransaction } from './end-payment.ts';

export type EvaluatePolicyResult =
  | { readonly outcome: 'denied' | 'ended' }
  /**
   * `resume`: the first step that the database does not show as done.
   * `answerWithinMs`: a person is asked; how long the first question stands.
   */
  | { readonly outcome: 'allowed'; readonly resume: 'prepare' | 'sign' | 'watch'; readonly answerWithinMs?: number };

/**
 * First evaluation: judges the payment once, under the agent's lock, stores the decision with the row, and takes the
 * amount from the agent's limits, all in one database transaction. Asks a person where a policy wants it: such a
 * payment is allowed to go on, and `allot` gives it no nonce before the answer.
 * A repeat returns what was stored, and says where to go on.
 */
export function createEvaluatePolicy({ pool, clock }: { pool: Pool; clock: Clock }) {
  return async function evaluatePolicy(transactionId: string): Promise<EvaluatePolicyResult> {
    return inTransaction(pool, async (db) => {
      const { agent, row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status === 'failed' && row.decision?.outcome === 'deny') return { outcome: 'denied' };
      if (row.status !== 'pending') return { outcome: 'ended' };
      if (row.decision) return { ...(await firstStepLeft(db, transactionId)), ...(await timeToAnswer(db, row, clock)) };
      if (agent.status !== 'active') {
        await endUnsent(db, row, inactiveFailure(row));
        return { outcome: 'denied' };
      }
      const now = await clock(db);
      const evaluation = await judgeStored(db, row, now);
      const { decision } = evaluation;
      await storeDecision(db, { id: row.id, decisionId: newId('dec'), decision });
      await noteEvaluation(db, row, { evaluation, stage: 'first' });
      if (decision.outcome === 'deny') {
        await endUnsent(db, row, denialFailure(decision));
        return { outcome: 'denied' };
      }
      await reservePayment(db, row, now);
      await askPeople(db, row, { decision, now });
      const timeouts = decision.approvals.map((each) => each.timeout_seconds * 1000);
      if (timeouts.length === 0) return { outcome: 'allowed', resume: 'prepare' };
      return { outcome: 'allowed', resume: 'prepare', answerWithinMs: Math.min(...timeouts) };
    });
  };
}

async function firstStepLeft(db: Queryable, transactionId: string) {
  const outcome = 'allowed' as const;
  if ((await findAttempts(db, { transactionId })).length > 0) return { outcome, resume: 'watch' as const };
  return { outcome, resume: (await findSlot(db, { transactionId })) ? ('sign' as const) : ('prepare' as const) };
}

/** How long the question that expires first still stands, if one is open. */
async function timeToAnswer(db: Queryable, row: TransactionRow, clock: Clock): Promise<{ answerWithinMs?: number }> {
  if (row.status_detail !== 'awaiting_approval') return {};
  const pending = (await approvalsOfPayment(db, { paymentId: row.id })).find(({ status }) => status === 'pending');
  if (!pending) return {};
  return { answerWithinMs: Math.max(1, pending.expires_at.getTime() - (await clock(db)).getTime()) };
}
