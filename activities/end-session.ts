import { lockAgent } from '../shared/db/agents.ts';
import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import { getSession, lockSession } from '../shared/db/x402-sessions.ts';
import { noteSession } from '../shared/note-x402.ts';
import { releaseSession } from '../shared/x402-budget.ts';
import { notFound } from './failures.ts';

export type EndSessionResult =
  | { readonly state: 'ended' }
  /** `leftMs` until its time is over. */
  | { readonly state: 'open'; readonly leftMs: number };

/** Ends a session whose time is over: the rest of its budget goes back to the wallet, once. */
export function createEndSession({ pool, clock }: { pool: Pool; clock: Clock }) {
  return async function endSession(sessionId: string): Promise<EndSessionResult> {
    return inTransaction(pool, async (db) => {
      const known = await getSession(db, { id: sessionId });
      if (!known) throw notFound(`Session ${sessionId}`);
      await lockAgent(db, { id: known.agent_id });
      const session = (await lockSession(db, { id: sessionId }))!;
      if (session.released_at !== null) return { state: 'ended' };
      if (await releaseSession(db, { session, by: 'expiry' })) {
        await noteSession(db, { id: sessionId, type: 'x402.session.expired' });
        return { state: 'ended' };
      }
      return { state: 'open', leftMs: Math.max(1, session.expires_at.getTime() - (await clock(db)).getTime()) };
    });
  };
}
