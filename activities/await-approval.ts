import { noteApproval } from '../shared/ask-people.ts';
import { type ApprovalRow, approvalsOfPayment, moveApproval } from '../shared/db/approvals.ts';
import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { takeLongestWaiting } from '../shared/db/transactions.ts';
import { advanceApproval, isAgreed, stillAsks } from '../shared/domain/approval.ts';
import type { ApprovalDemand } from '../shared/domain/policy/types.ts';
import { endUnsent } from '../shared/end-unsent.ts';
import { judgeStored } from '../shared/judge-payment.ts';
import { isX402, type PaymentFacts } from '../shared/payment.ts';
import { findRejection } from '../shared/payment-failures.ts';
import { lockAgentAndTransaction } from './end-payment.ts';
import { endAndNote } from './end-x402.ts';
import { lockX402 } from './lock-payment.ts';

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
  return async function awaitApproval(paymentId: string): Promise<AwaitApprovalResult> {
    return inTransaction(pool, async (db) => {
      const payment = isX402(paymentId) ? await lockLedger(db, paymentId) : await lockTransaction(db, paymentId);
      const { row, end } = payment;
      if (payment.isOver) return { outcome: 'ended' };
      const now = await clock(db);
      const rejection = await findRejection(db, row);
      if (rejection) return end({ outcome: 'rejected', failure: rejection });
      const expiredAt = await expire(db, row, now);
      if (expiredAt) {
        const message = `Nobody approved the payment until ${expiredAt.toISOString()}.`;
        return end({ outcome: 'expired', failure: { code: 'approval_timeout', message } });
      }
      if (payment.isIdle) return { outcome: 'go' };
      const questions = await approvalsOfPayment(db, { paymentId });
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

interface Failure {
  readonly code: 'approval_rejected' | 'approval_timeout';
  readonly message: string;
}

/** A payment of either kind under its locks. */
interface Waiting {
  readonly row: PaymentFacts;
  /** It is not pending any more. */
  readonly isOver: boolean;
  /** Something else stands against it: the next step says what. */
  readonly isIdle: boolean;
  readonly end: (how: { outcome: 'expired' | 'rejected'; failure: Failure }) => Promise<AwaitApprovalResult>;
}

async function lockTransaction(db: Queryable, transactionId: string): Promise<Waiting> {
  const { row } = await lockAgentAndTransaction(db, transactionId);
  return {
    row,
    isOver: row.status !== 'pending',
    isIdle: false,
    async end({ outcome, failure }) {
      if ((await endUnsent(db, row, failure)) === 'filling') return { outcome: 'filling' };
      const wake = await takeLongestWaiting(db, { walletId: row.wallet_id, chain: row.chain });
      return wake === undefined ? { outcome } : { outcome, wake };
    },
  };
}

async function lockLedger(db: Queryable, ledgerId: string): Promise<Waiting> {
  const { row, agent, session } = await lockX402(db, ledgerId);
  return {
    row,
    isOver: row.status !== 'pending' || row.auth_nonce !== null,
    isIdle: agent.status !== 'active' || session.status !== 'active',
    async end({ outcome, failure }) {
      await endAndNote(db, row, failure);
      return { outcome };
    },
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
async function expire(db: Queryable, row: PaymentFacts, now: Date): Promise<Date | undefined> {
  let expiredAt: Date | undefined;
  for (const seen of await approvalsOfPayment(db, { paymentId: row.id })) {
    const next = advanceApproval(seen, { kind: 'expire' }, now);
    if ('refusal' in next || !(await moveApproval(db, { seen, ...next, now }))) continue;
    await noteApproval(db, { id: seen.id, type: 'approval.expired' });
    expiredAt ??= seen.expires_at;
  }
  return expiredAt;
}
