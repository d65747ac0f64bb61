import { deleteOldAuthSessions } from '../shared/db/auth-sessions.ts';
import { deleteExpiredExchangeCodes } from '../shared/db/exchange-codes.ts';
import type { Pool } from '../shared/db/pool.ts';
import { deleteExpiredRefreshTokens } from '../shared/db/refresh-tokens.ts';
import type { Logger } from '../shared/log.ts';

const batch = 1_000;
/** More than this of one kind are left for the next day. */
const maxForgotten = 1_000_000;

/** Forgets codes, refresh tokens and sessions by which nobody is signed in any more. The audit log keeps who was. */
export async function forgetSignIns({ pool, logger }: { pool: Pool; logger: Logger }): Promise<void> {
  const codes = await untilNone((limit) => deleteExpiredExchangeCodes(pool, { limit }));
  const refreshTokens = await untilNone((limit) => deleteExpiredRefreshTokens(pool, { limit }));
  // Last, for what is left of them is gone by then.
  const sessions = await untilNone((limit) => deleteOldAuthSessions(pool, { limit }));
  if (codes + refreshTokens + sessions > 0)
    logger.info({ codes, refresh_tokens: refreshTokens, sessions }, 'forgot sign-ins that are over');
}

async function untilNone(deleteSome: (limit: number) => Promise<number>): Promise<number> {
  let deleted = 0;
  while (deleted < maxForgotten) {
    const count = await deleteSome(batch);
    deleted += count;
    if (count < batch) break;
  }
  return deleted;
}
