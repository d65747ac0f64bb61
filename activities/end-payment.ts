import { lockAgent } from '../shared/db/agents.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { getTransaction, lockTransaction } from '../shared/db/transactions.ts';
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
