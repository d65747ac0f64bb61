import { lockAgent, lockWallet } from '../shared/db/agents.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { getX402Payment, lockX402Payment } from '../shared/db/x402-payments.ts';
import { lockSession } from '../shared/db/x402-sessions.ts';
import { notFound } from './failures.ts';

/** Locks for a payment out of an x402 session, in the one order that every writer keeps: agent, session, payment, wallet. */
export async function lockX402(db: Queryable, ledgerId: string) {
  const known = await getX402Payment(db, { id: ledgerId });
  if (!known) throw notFound(`Payment ${ledgerId}`);
  const agent = await lockAgent(db, { id: known.agent_id });
  const session = await lockSession(db, { id: known.session_id });
  const row = await lockX402Payment(db, { id: ledgerId });
  const wallet = await lockWallet(db, { id: known.wallet_id });
  if (!agent || !session || !row || !wallet) throw notFound(`Agent, session or wallet of payment ${ledgerId}`);
  return { agent, session, row, wallet };
}
