import { lockAgent } from '../shared/db/agents.ts';
import { findAttempts } from '../shared/db/attempts.ts';
import { policiesOfAgent } from '../shared/db/policies.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { findSlot } from '../shared/db/slots.ts';
import {
  failTransaction,
  getTransaction,
  lockTransaction,
  storeDecision,
  type TransactionRow,
} from '../shared/db/transactions.ts';
import { type Evaluation, evaluate } from '../shared/domain/policy/engine.ts';
import type { Violation } from '../shared/domain/policy/types.ts';
import { newId } from '../shared/ids.ts';
import { notFound } from './failures.ts';

export type EvaluatePolicyResult =
  | { readonly outcome: 'denied' | 'ended' }
  /** `resume`: the first step that the database does not show as done. */
  | { readonly outcome: 'allowed'; readonly resume: 'prepare' | 'sign' | 'watch' };

/**
 * First evaluation: judges the payment once, under the agent's lock, and stores the decision with the row.
 * A repeat returns what was stored, and says where to go on.
 */
export function createEvaluatePolicy({ pool, clock }: { pool: Pool; clock: () => Date }) {
  return async function evaluatePolicy(transactionId: string): Promise<EvaluatePolicyResult> {
    return inTransaction(pool, async (db) => {
      const { agent, row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status === 'failed' && row.decision?.outcome === 'deny') return { outcome: 'denied' };
      if (row.status !== 'pending') return { outcome: 'ended' };
      if (row.decision) return { outcome: 'allowed', resume: await firstStepLeft(db, transactionId) };
      if (agent.status !== 'active') {
        await failTransaction(db, { id: row.id, ...inactiveFailure(row) });
        return { outcome: 'denied' };
      }
      const decision = await judge(db, row, clock());
      await storeDecision(db, { id: row.id, decisionId: newId('dec'), decision });
      if (decision.outcome === 'allow') return { outcome: 'allowed', resume: 'prepare' };
      await failTransaction(db, { id: row.id, ...denialFailure(decision) });
      return { outcome: 'denied' };
    });
  };
}

/** Locks in the one order that every writer keeps: agent, then transaction. */
export async function lockAgentAndTransaction(db: Queryable, transactionId: string) {
  const known = await getTransaction(db, { id: transactionId });
  if (!known) throw notFound(`Transaction ${transactionId}`);
  const agent = await lockAgent(db, { id: known.agent_id });
  const row = await lockTransaction(db, { id: transactionId });
  if (!agent || !row) throw notFound(`Transaction ${transactionId}`);
  return { agent, row };
}

/** Judges a payment against its agent's policies as they stand in this database transaction. */
export async function judge(db: Queryable, row: TransactionRow, now: Date): Promise<Evaluation> {
  const policies = await policiesOfAgent(db, { agentId: row.agent_id });
  const payment = { token: row.token, decimals: row.decimals, amountMinor: BigInt(row.amount_minor) };
  return evaluate({ payment, policies, now });
}

async function firstStepLeft(db: Queryable, transactionId: string): Promise<'prepare' | 'sign' | 'watch'> {
  if ((await findAttempts(db, { transactionId })).length > 0) return 'watch';
  return (await findSlot(db, { transactionId })) ? 'sign' : 'prepare';
}

export function inactiveFailure(row: TransactionRow) {
  return {
    code: 'agent_inactive',
    message: `Agent ${row.agent_id} is inactive: it sends nothing until it is active again.`,
  } as const;
}

export function denialFailure(decision: Evaluation) {
  return { code: 'policy_violation', message: describeViolation(decision.violations[0]!) } as const;
}

/** The first broken rule in one sentence. */
function describeViolation(violation: Violation): string {
  if (violation.limit === null) return `Policy ${violation.policy_id} could not be judged, so the payment is denied.`;
  return `${violation.attempted} ${violation.token} breaks ${violation.rule} ${violation.limit} of policy ${violation.policy_id}.`;
}
