import { cancelApprovals, remindOfSession } from './db/approvals.ts';
import { forgetFrozenPayment } from './db/freezes.ts';
import { closeHolds, dropHolds, putHolds } from './db/holds.ts';
import type { Queryable } from './db/pool.ts';
import { closeReservation } from './db/reservations.ts';
import {
  clearX402Stamp,
  expireX402Payment,
  failX402Payment,
  noteX402Ending,
  settleX402Payment,
  type X402FailureCode,
  type X402PaymentRow,
} from './db/x402-payments.ts';
import { getSession, markReleased, recountSpent, restoreBudget, type SessionRow } from './db/x402-sessions.ts';

/** Has an open session hold just what is left of its budget. Hold the locks of agent, session and wallet. */
export async function holdRest(db: Queryable, { sessionId }: { sessionId: string }): Promise<void> {
  const session = await getSession(db, { id: sessionId });
  if (!session || session.released_at !== null) return;
  const left = BigInt(session.budget_minor) - BigInt(session.spent_minor);
  const { wallet_id: walletId, chain, asset } = session;
  if (left === 0n) await dropHolds(db, { ownerId: sessionId });
  else await putHolds(db, { ownerId: sessionId, walletId, chain, holds: [{ asset, amountMinor: left }] });
}

/**
 * Ends a session and gives the rest of its budget back to the wallet, once whoever comes first. Payments that are open
 * keep what they hold themselves; those that wait for a person fail when they look next. Hold the locks of agent and session.
 * @returns whether it was this call that ended it
 */
export async function releaseSession(
  db: Queryable,
  { session, by }: { session: SessionRow; by: 'deletion' | 'expiry' },
): Promise<boolean> {
  if (!(await markReleased(db, { id: session.id, by }))) return false;
  await dropHolds(db, { ownerId: session.id });
  await remindOfSession(db, { sessionId: session.id });
  return true;
}

export interface X402Failure {
  readonly code: X402FailureCode;
  readonly message: string;
}

/**
 * Ends a pending payment; what it took goes back to budget, limits and wallet. Where something may have been signed, it
 * only notes why, and the payment ends when that is over. Hold the locks of agent, session and payment.
 */
export async function endX402Payment(
  db: Queryable,
  row: X402PaymentRow,
  failure: X402Failure,
): Promise<'failed' | 'ending'> {
  await cancelApprovals(db, { paymentId: row.id });
  if (row.auth_nonce !== null) {
    await noteX402Ending(db, { id: row.id, ...failure });
    return 'ending';
  }
  await failX402Payment(db, { id: row.id, ...failure });
  await giveBack(db, row);
  return 'failed';
}

/**
 * The authorisation is over, and a final block later than its last second shows that nobody has used it: what the payment
 * took goes back. Hold the locks of agent, session and payment; the payment's settlement is `unsettled`.
 * @returns `again`: it was never handed out, and nothing stands against another one
 */
export async function overX402Payment(db: Queryable, row: X402PaymentRow): Promise<'over' | 'again'> {
  if (row.status === 'completed') await expireX402Payment(db, { id: row.id });
  else if (row.ending_code === null) {
    await clearX402Stamp(db, { id: row.id });
    return 'again';
  } else await failX402Payment(db, { id: row.id, code: row.ending_code, message: row.ending_message ?? '' });
  await giveBack(db, row);
  return 'over';
}

async function giveBack(db: Queryable, row: X402PaymentRow): Promise<void> {
  await forgetFrozenPayment(db, row);
  await closeReservation(db, { paymentId: row.id, state: 'released' });
  await dropHolds(db, { ownerId: row.id });
  await restoreBudget(db, { id: row.session_id, minor: BigInt(row.amount_minor) + BigInt(row.fee_minor) });
  await holdRest(db, { sessionId: row.session_id });
}

/**
 * The chain has moved the money, finally. Hold the locks of agent, session and payment; the payment's settlement is
 * `unsettled`.
 */
export async function paidX402Payment(
  db: Queryable,
  row: X402PaymentRow,
  { txHash, blockNumber, blockHash }: { txHash: string; blockNumber: number; blockHash: string },
): Promise<void> {
  await settleX402Payment(db, { id: row.id, txHash, blockNumber, blockHash });
  await closeReservation(db, { paymentId: row.id, state: 'settled' });
  const spent = [{ asset: row.asset, amountMinor: BigInt(row.amount_minor) }];
  await closeHolds(db, { ownerId: row.id, block: String(blockNumber), spent });
}

/**
 * Makes a budget what its payments leave of it, where a payment has ended and did not give back what it took. Hold the
 * locks of agent, session and wallet.
 */
export async function recountBudget(db: Queryable, { sessionId }: { sessionId: string }): Promise<void> {
  await recountSpent(db, { id: sessionId });
  await holdRest(db, { sessionId });
}
