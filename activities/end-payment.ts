import { lockAgent } from '../shared/db/agents.ts';
import { approvalsOfTransaction, cancelApprovals } from '../shared/db/approvals.ts';
import { dropHolds } from '../shared/db/holds.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { closeReservation } from '../shared/db/reservations.ts';
import { closeSlot, releaseSlot } from '../shared/db/slots.ts';
import {
  type FailureCode,
  failTransaction,
  getTransaction,
  lockTransaction,
  type TransactionRow,
} from '../shared/db/transactions.ts';
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

/**
 * Ends a pending payment of which nothing was transferred: row, reservation, hold, nonce and open questions together.
 * Hold the agent's and the transaction's lock.
 */
export async function endUnsent(
  db: Queryable,
  row: TransactionRow,
  failure: { code: FailureCode; message: string },
): Promise<void> {
  await failTransaction(db, { id: row.id, ...failure });
  await closeReservation(db, { transactionId: row.id, state: 'released' });
  await dropHolds(db, { ownerId: row.id });
  await cancelApprovals(db, { transactionId: row.id });
  if (!(await releaseSlot(db, { transactionId: row.id }))) await closeSlot(db, { transactionId: row.id });
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
  const approvals = await approvalsOfTransaction(db, { transactionId: row.id });
  const rejection = approvals.find(({ status }) => status === 'rejected')?.decisions.at(-1);
  if (!rejection) return undefined;
  const because = rejection.note === null ? '.' : `: ${rejection.note}`;
  return { code: 'approval_rejected', message: `${rejection.approver} rejected the payment${because}` };
}
