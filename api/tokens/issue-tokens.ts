import { findSessionHolder } from '../../shared/db/auth-sessions.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import { insertRefreshToken } from '../../shared/db/refresh-tokens.ts';
import type { TokenAnswer } from '../schemas/auth.ts';
import { invalidToken } from '../unauthenticated.ts';
import { type AccessTokens, accessTokenSeconds, type TokenHolder } from './access-tokens.ts';
import { hashRefreshToken, newRefreshToken, refreshTokenSeconds } from './refresh-token.ts';

/** The first pair of tokens of a new session, in the database transaction that makes the session. */
export type IssueTokens = (db: Queryable, holder: TokenHolder) => Promise<TokenAnswer>;

export function createIssueTokens({ tokens }: { tokens: AccessTokens }): IssueTokens {
  return async function issueTokens(db, holder) {
    const refreshToken = newRefreshToken();
    const hash = hashRefreshToken(refreshToken);
    await insertRefreshToken(db, { hash, sessionId: holder.sessionId, lifetimeSeconds: refreshTokenSeconds });
    return answerTokens(db, { tokens, holder, refreshToken, secondsLeft: refreshTokenSeconds });
  };
}

/**
 * A new access token, and the refresh token that goes with it.
 * @param secondsLeft of the refresh token's life
 * @throws PurserError 401 where the session is over
 */
export async function answerTokens(
  db: Queryable,
  {
    tokens,
    holder,
    refreshToken,
    secondsLeft,
  }: { tokens: AccessTokens; holder: TokenHolder; refreshToken: string; secondsLeft: number },
): Promise<TokenAnswer> {
  const { accountId, userId, sessionId } = holder;
  const found = await findSessionHolder(db, { id: sessionId, accountId, userId });
  if (!found) throw invalidToken('You are signed out. Sign in again.', { reason: 'signed_out' });
  return {
    access_token: await tokens.sign(holder),
    token_type: 'Bearer',
    expires_in: accessTokenSeconds,
    refresh_token: refreshToken,
    refresh_expires_in: Math.max(secondsLeft, 0),
    user: { id: userId, email: found.email, name: found.user_name },
  };
}
