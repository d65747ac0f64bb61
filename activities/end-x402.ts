import type { Queryable } from '../shared/db/pool.ts';
import type { X402PaymentRow } from '../shared/db/x402-payments.ts';
import type { SessionRow } from '../shared/db/x402-sessions.ts';
import { noteX402Payment } from '../shared/note-x402.ts';
import { endX402Payment, type X402Failure } from '../shared/x402-budget.ts';

/**
 * Ends a pending payment, and tells the receivers of events once it has failed; of what the policies deny they were told
 * already. Hold the locks of agent, session, payment and wallet.
 */
export async function endAndNote(
  db: Queryable,
  row: X402PaymentRow,
  failure: X402Failure,
): Promise<'failed' | 'ending'> {
  const outcome = await endX402Payment(db, row, failure);
  if (outcome === 'failed' && failure.code !== 'policy_violation')
    await noteX402Payment(db, { id: row.id, type: 'x402.payment.failed' });
  return outcome;
}

export function endedSession({ id, status, expires_at }: SessionRow): X402Failure {
  const why = status === 'deleted' ? 'was deleted' : `was over at ${expires_at.toISOString()}`;
  return { code: 'session_expired', message: `Session ${id} ${why} before the payment could be handed out.` };
}
