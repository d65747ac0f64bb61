import { lockAgent } from '../../shared/db/agents.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { lockSession, type SessionRow } from '../../shared/db/x402-sessions.ts';
import { noteSession } from '../../shared/note-x402.ts';
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
  { id, agent_id: agentId }: SessionRow,
): Promise<void> {
  const isDeletedNow = await inTransaction(pool, async (db) => {
    await lockAgent(db, { id: agentId });
    const session = (await lockSession(db, { id }))!;
    if (session.status === 'deleted') return false;
    const isReleased = await releaseSession(db, { session, by: 'deletion' });
    if (!isReleased) throw sessionOver({ ...session, status: 'expired' });
    await noteSession(db, { id, type: 'x402.session.deleted' });
    return true;
  });
  if (isDeletedNow) await temporal.tellSessionEnded(id);
}
