import { askPeople } from '../../shared/ask-people.ts';
import { lockAgent, lockWallet } from '../../shared/db/agents.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { currentFreeze } from '../../shared/db/freezes.ts';
import { putHolds } from '../../shared/db/holds.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import {
  failX402Payment,
  findX402Payment,
  insertX402Payment,
  markX402Awaiting,
  type NewX402Payment,
  storeX402Decision,
  type X402PaymentRow,
} from '../../shared/db/x402-payments.ts';
import { getSession, lockSession, type SessionRow, spendBudget } from '../../shared/db/x402-sessions.ts';
import { formatAmount } from '../../shared/domain/money.ts';
import { PurserError } from '../../shared/errors.ts';
import { newId } from '../../shared/ids.ts';
import { judgeStored } from '../../shared/judge-payment.ts';
import { noteEvaluation } from '../../shared/note-evaluation.ts';
import { noteSession } from '../../shared/note-x402.ts';
import { denialFailure } from '../../shared/payment-failures.ts';
import { renderX402Payment } from '../../shared/render-x402.ts';
import { reservePayment } from '../../shared/reserve-payment.ts';
import { holdRest } from '../../shared/x402-budget.ts';
import { frozenAgent, inactiveAgent } from '../require-agent.ts';
import { sessionOver } from './x402-payment-answer.ts';

/**
 * Judges a payment and takes it out of its session: row, decision, budget, limits, holds and questions, all in the
 * caller's database transaction. What the policies deny is stored as failed, and takes nothing.
 * @throws PurserError 400 `agent_inactive`, `session_expired`, `budget_exceeded`: let it pass, so that nothing is stored
 */
export async function takeX402Payment(
  db: Queryable,
  { payment, acting }: { payment: NewX402Payment; acting: Acting },
): Promise<X402PaymentRow> {
  const { id, accountId, agentId, sessionId } = payment;
  const agent = await lockAgent(db, { id: agentId });
  const session = await lockSession(db, { id: sessionId });
  if (!session) throw new Error(`Session ${sessionId} has gone.`);
  // First of all: what an earlier try has kept is known by its id, whatever has become of agent and session since.
  const row = await insertX402Payment(db, payment);
  if (agent?.status !== 'active') throw inactiveAgent(agentId);
  if (session.status !== 'active') throw sessionOver(session);
  const freeze = await currentFreeze(db, { accountId, agentId });
  if (freeze) throw frozenAgent(agentId, freeze);
  await insertAudit(db, {
    accountId,
    agentId,
    action: 'x402_payment.created',
    acting,
    resourceType: 'x402_payment',
    resourceId: id,
    result: 'success',
    changes: { before: null, after: renderX402Payment(row) },
  });
  const now = await databaseClock(db);
  const evaluation = await judgeStored(db, row, now);
  const { decision } = evaluation;
  await storeX402Decision(db, { id, decisionId: newId('dec'), decision });
  await noteEvaluation(db, row, { evaluation, stage: 'first' });
  if (decision.outcome === 'deny') await failX402Payment(db, { id, ...denialFailure(decision) });
  else {
    const minor = payment.amountMinor + payment.feeMinor;
    await charge(db, { row, session, minor });
    await reservePayment(db, row, now);
    await hold(db, { row, minor });
  }
  if (decision.outcome === 'allow') return { ...row, decision };
  if (decision.outcome === 'require_approval') {
    await askPeople(db, row, { decision, now });
    await markX402Awaiting(db, { id, isAwaiting: true });
  }
  return (await findX402Payment(db, { id, accountId }))!;
}

/** Takes amount and fee out of the budget, and says when nothing is left of it. */
async function charge(
  db: Queryable,
  { row, session, minor }: { row: X402PaymentRow; session: SessionRow; minor: bigint },
): Promise<void> {
  if (!(await spendBudget(db, { id: session.id, minor }))) {
    const now = (await getSession(db, { id: session.id }))!;
    throw now.status === 'active' ? budgetExceeded(now, { row, minor }) : sessionOver(now);
  }
  if (BigInt(session.spent_minor) + minor === BigInt(session.budget_minor))
    await noteSession(db, { id: session.id, type: 'x402.session.exhausted' });
}

/**
 * What the session held for the payment, the payment holds itself from now on: with the fee, so that the budget can have
 * all of it back.
 */
async function hold(db: Queryable, { row, minor }: { row: X402PaymentRow; minor: bigint }): Promise<void> {
  const { id: ownerId, session_id: sessionId, wallet_id: walletId, chain, asset } = row;
  await lockWallet(db, { id: walletId });
  await putHolds(db, { ownerId, walletId, chain, holds: [{ asset, amountMinor: minor }] });
  await holdRest(db, { sessionId });
}

function budgetExceeded(session: SessionRow, { row, minor }: { row: X402PaymentRow; minor: bigint }): PurserError {
  const write = (value: bigint) => formatAmount(value, session.decimals);
  const remaining = write(BigInt(session.budget_minor) - BigInt(session.spent_minor));
  const attempted = write(minor);
  const { token } = row;
  return new PurserError(
    'budget_exceeded',
    `${attempted} ${token} with the fee are more than the ${remaining} ${token} that are left of the budget.`,
    { details: { session_id: session.id, attempted, fee_amount: write(BigInt(row.fee_minor)), remaining, token } },
  );
}
