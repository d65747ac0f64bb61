import { lockAgent } from '../../shared/db/agents.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { getSession, lockSession, type SessionRow } from '../../shared/db/x402-sessions.ts';
import { noteSession } from '../../shared/note-x402.ts';
import { renderSession } from '../../shared/render-x402.ts';
import { releaseSession } from '../../shared/x402-budget.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';
import { sessionOver } from './x402-payment-answer.ts';

export interface DeleteSessionDependencies {
  readonly pool: Pool;
  readonly temporal: Pick<TemporalGateway, 'tellSessionEnded'>;
}

/**
 * Ends a session and gives what is left of its budget back to the wallet. One that was deleted before is deleted again
 * without effect.
 * @throws PurserError 400 `session_expired` where its time was over first
 */
export async function deleteSession(
  { pool, temporal }: DeleteSessionDependencies,
  { id, account_id: accountId, agent_id: agentId }: SessionRow,
  { acting }: { acting: Acting },
): Promise<void> {
  const isDeletedNow = await inTransaction(pool, async (db) => {
    await lockAgent(db, { id: agentId });
    const session = (await lockSession(db, { id }))!;
    if (session.status === 'deleted') return false;
    const isReleased = await releaseSession(db, { session, by: 'deletion' });
    if (!isReleased) throw sessionOver({ ...session, status: 'expired' });
    await noteSession(db, { id, type: 'x402.session.deleted' });
    await insertAudit(db, {
      accountId,
      agentId,
      action: 'x402_session.deleted',
      acting,
      resourceType: 'x402_session',
      resourceId: id,
      result: 'success',
      // What was paid out of it stays to be read; as a session it is over.
      changes: { before: renderSession(session), after: renderSession((await getSession(db, { id }))!) },
    });
    return true;
  });
  if (isDeletedNow) await temporal.tellSessionEnded(id);
}
