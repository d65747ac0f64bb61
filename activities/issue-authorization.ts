import { isSignedByPayer } from '../shared/chain/evm/transfer-authorization.ts';
import { bySystem, insertAudit } from '../shared/db/audit.ts';
import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import { completeX402Payment } from '../shared/db/x402-payments.ts';
import { msLeftToSign } from '../shared/domain/x402.ts';
import { noteX402Payment } from '../shared/note-x402.ts';
import { inactiveFailure } from '../shared/payment-failures.ts';
import { authorizationOf, stampOf } from './authorization-of.ts';
import { endAndNote, endedSession } from './end-x402.ts';
import { holdFrozen } from './hold-frozen.ts';
import { lockX402 } from './lock-payment.ts';
import { paymentHeader } from './payment-header.ts';

/**
 * - `issued`: whoever asked may have the header now.
 * - `ending`: agent or session are not active any more; it fails once the authorisation is over.
 * - `again`: too late, or frozen, or the signature is not that of the payment's authorisation (any more): stamp again.
 */
export interface IssueAuthorizationResult {
  readonly outcome: 'issued' | 'failed' | 'ending' | 'again';
}

/**
 * Hands a signed authorisation out: stores the header, if agent and session are still active, nothing is frozen and enough
 * of its time is left. Safe to repeat.
 * @param signature r | s | v, 65 bytes
 */
export function createIssueAuthorization({ pool, clock }: { pool: Pool; clock: Clock }) {
  return async function issueAuthorization(
    ledgerId: string,
    signature: `0x${string}`,
  ): Promise<IssueAuthorizationResult> {
    return inTransaction(pool, async (db) => {
      const { agent, session, row } = await lockX402(db, ledgerId);
      if (row.status === 'completed') return { outcome: 'issued' };
      if (row.status === 'failed') return { outcome: 'failed' };
      if (row.ending_code !== null) return { outcome: 'ending' };
      if (agent.status !== 'active') return { outcome: await endAndNote(db, row, inactiveFailure(row)) };
      if (session.status !== 'active') return { outcome: await endAndNote(db, row, endedSession(session)) };
      const stamp = stampOf(row);
      if (!stamp) return { outcome: 'again' };
      const now = await clock(db);
      const { validBefore } = stamp;
      if (msLeftToSign({ now, validBefore, windowSeconds: row.window_seconds }) <= 0) return { outcome: 'again' };
      // Who has the header can pay with it: what is signed and still here stays here.
      if (await holdFrozen(db, row)) return { outcome: 'again' };
      const authorization = authorizationOf(row, stamp);
      // A process that slept may come back with what was signed for a stamp that another one has followed.
      if (!(await isSignedByPayer(authorization, signature))) return { outcome: 'again' };
      const paymentSignature = paymentHeader(row, { authorization, signature });
      await completeX402Payment(db, { id: row.id, paymentSignature });
      await insertAudit(db, {
        accountId: row.account_id,
        agentId: row.agent_id,
        action: 'x402_payment.signed',
        acting: bySystem,
        resourceType: 'x402_payment',
        resourceId: row.id,
        result: 'success',
        metadata: { session_id: row.session_id, nonce: stamp.nonce, valid_before: validBefore },
      });
      await noteX402Payment(db, { id: row.id, type: 'x402.payment.completed' });
      return { outcome: 'issued' };
    });
  };
}
