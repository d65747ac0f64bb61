import { lockAgent } from '../shared/db/agents.ts';
import { approvalsOfPayment } from '../shared/db/approvals.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { getTransaction, lockTransaction, type TransactionRow } from '../shared/db/transactions.ts';
import { notFound } from './failures.ts';

/** Locks in the one order that every writer keeps: agent, then transaction. */
export async function lockAgentAndTransaction(db: Queryable, transactionId: string) {
  const known = await getTransaction(db, { id: transactionId });
  if (!known) throw notFound(`Transaction ${transactionId}`);
  const agent = await lockAgent(db, { id: known.agent_id });
  const row = await lockTransaction(db, { id: transactionId });
  if (!agent || !row) throw notFound(`Transaction ${transactionId}`);
  return { agent, row };
}

export function inactiveFailure(row: TransactionRow) {
  return {
    code: 'agent_inactive',
    message: `Agent ${row.agent_id} is inactive: it sends nothing until it is active again.`,
  } as const;
}

/** That somebody who was asked has said no, as the payment's failure; it stands whatever else is asked. */
export async function findRejection(
  db: Queryable,
  row: TransactionRow,
): Promise<{ code: 'approval_rejected'; message: string } | undefined> {
  const approvals = await approvalsOfPayment(db, { paymentId: row.id });
  const rejection = approvals.find(({ status }) => status === 'rejected')?.decisions.at(-1);
  if (!rejection) return undefined;
  const because = rejection.note === null ? '.' : `: ${rejection.note}`;
  return { code: 'approval_rejected', message: `${rejection.approver} rejected the payment${because}` };
}
