import { noteApproval } from '../shared/ask-people.ts';
import { type ApprovalRow, approvalsOfPayment, moveApproval } from '../shared/db/approvals.ts';
import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { type TransactionRow, takeLongestWaiting } from '../shared/db/transactions.ts';
import { advanceApproval, isAgreed, stillAsks } from '../shared/domain/approval.ts';
import type { ApprovalDemand } from '../shared/domain/policy/types.ts';
import { endUnsent, type Failure } from '../shared/end-unsent.ts';
import { judgeStored } from '../shared/judge-payment.ts';
import { findRejection } from '../shared/payment-failures.ts';
import { lockAgentAndTransaction } from './end-payment.ts';

export type AwaitApprovalResult =
  /**
   * Nobody has to be asked (any more), or others than were asked: on to the next step, which judges again.
   * `leftMs`: a question is open all the same, for so long.
   */
  | { readonly outcome: 'go'; readonly leftMs?: number }
  /** `leftMs`: time until the next question expires. */
  | {
      readonly outcome: 'waiting';
      readonly leftMs: number;
      /** The instant of that, ISO 8601. */
      readonly deadline: string;
      /** The open questions. */
      readonly approvalIds: readonly string[];
    }
  | { readonly outcome: 'expired' | 'rejected'; readonly wake?: string }
  /** It is over, and fails once its nonce is used up. */
  | { readonly outcome: 'filling' }
  | { readonly outcome: 'ended' };

/**
 * Looks whether a payment still waits for a person, and ends it when somebody has rejected it or nobody has answered in
 * time. Reads only the database, so that a signal sent by hand decides nothing.
 */
export function createAwaitApproval({ pool, clock }: { pool: Pool; clock: Clock }) {
  return async function awaitApproval(transactionId: string): Promise<AwaitApprovalResult> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return { outcome: 'ended' };
      const now = await clock(db);
      const rejection = await findRejection(db, row);
      if (rejection) return end(db, row, { outcome: 'rejected', failure: rejection });
      const expiredAt = await expire(db, row, now);
      if (expiredAt) {
        const message = `Nobody approved the payment until ${expiredAt.toISOString()}.`;
        return end(db, row, { outcome: 'expired', failure: { code: 'approval_timeout', message } });
      }
      const questions = await approvalsOfPayment(db, { paymentId: transactionId });
      const pending = questions.filter(({ status }) => status === 'pending');
      const { demands } = await judgeStored(db, row, now);
      if (pending.length === 0) return { outcome: 'go' };
      const deadline = pending[0]!.expires_at;
      const leftMs = Math.max(1, deadline.getTime() - now.getTime());
      if (!areCurrent(questions, demands)) return { outcome: 'go', leftMs };
      return {
        outcome: 'waiting',
        leftMs,
        deadline: deadline.toISOString(),
        approvalIds: pending.map(({ id }) => id),
      };
    });
  };
}

/**
 * Whether the policies want the questions asked that are open, and no others: one may have been added, removed or
 * changed meanwhile. What else has changed is for the second evaluation.
 */
function areCurrent(questions: readonly ApprovalRow[], demands: readonly ApprovalDemand[]): boolean {
  const asks = (question: ApprovalRow, demand: ApprovalDemand) =>
    question.policy_id === demand.policy_id &&
    (isAgreed(question, demand) || (question.status === 'pending' && stillAsks(question, demand)));
  const isWanted = (question: ApprovalRow) => demands.some((demand) => asks(question, demand));
  const isAsked = (demand: ApprovalDemand) => questions.some((question) => asks(question, demand));
  return questions.filter(({ status }) => status === 'pending').every(isWanted) && demands.every(isAsked);
}

/** Ends what nobody decided in time. @returns when the time of the first such question was over */
async function expire(db: Queryable, row: TransactionRow, now: Date): Promise<Date | undefined> {
  let expiredAt: Date | undefined;
  for (const seen of await approvalsOfPayment(db, { paymentId: row.id })) {
    const next = advanceApproval(seen, { kind: 'expire' }, now);
    if ('refusal' in next || !(await moveApproval(db, { seen, ...next, now }))) continue;
    await noteApproval(db, { id: seen.id, type: 'approval.expired' });
    expiredAt ??= seen.expires_at;
  }
  return expiredAt;
}

async function end(
  db: Queryable,
  row: TransactionRow,
  { outcome, failure }: { outcome: 'expired' | 'rejected'; failure: Failure },
): Promise<AwaitApprovalResult> {
  if ((await endUnsent(db, row, failure)) === 'filling') return { outcome: 'filling' };
  const wake = await takeLongestWaiting(db, { walletId: row.wallet_id, chain: row.chain });
  return wake === undefined ? { outcome } : { outcome, wake };
}
