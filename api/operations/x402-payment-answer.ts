import type { X402PaymentRow } from '../../shared/db/x402-payments.ts';
import type { SessionRow } from '../../shared/db/x402-sessions.ts';
import { PurserError } from '../../shared/errors.ts';
import { renderX402Payment } from '../../shared/render-x402.ts';

/**
 * The answer to a request whose payment was stored, from how that stands. What comes to nothing for a reason that the
 * request is refused for, is answered as that; other failures are facts about the payment, not errors.
 * @throws PurserError 400
 */
export function answerX402Payment(row: X402PaymentRow) {
  const code = row.failure_code ?? row.ending_code;
  const message = row.failure_message ?? row.ending_message ?? 'The payment was refused.';
  const ledger_id = row.id;
  switch (code) {
    case 'policy_violation': {
      const violations = row.decision?.violations ?? [];
      throw new PurserError(code, message, { details: { ledger_id, ...violations[0], violations } });
    }
    case 'agent_inactive':
    case 'session_expired':
      throw new PurserError(code, message, { details: { ledger_id } });
    default:
      return renderX402Payment(row);
  }
}

/** That a session has ended. @param session not active */
export function sessionOver({ id, status, expires_at, deleted_at }: SessionRow): PurserError {
  const when = status === 'deleted' ? deleted_at : expires_at;
  return new PurserError(
    'session_expired',
    `Session ${id} ${status === 'deleted' ? 'was deleted' : 'expired'} at ${when?.toISOString()}.`,
    {
      details: { session_id: id, status },
    },
  );
}
