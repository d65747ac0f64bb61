import { findSessionHolder, type SessionHolder } from '../../shared/db/auth-sessions.ts';
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
    const { accountId, userId, sessionId } = holder;
    const person = await findSessionHolder(db, { id: sessionId, accountId, userId });
    if (!person) throw invalidToken('You are signed out. Sign in again.', { reason: 'signed_out' });
    const refreshToken = newRefreshToken();
    const secondsLeft = refreshTokenSeconds;
    await insertRefreshToken(db, { hash: hashRefreshToken(refreshToken), sessionId, lifetimeSeconds: secondsLeft });
    return answerTokens({ tokens, holder, person, refreshToken, secondsLeft });
  };
}

/** A new access token, and the refresh token that goes with it. */
export async function answerTokens({
  tokens,
  holder,
  person: { email, user_name: name },
  refreshToken,
  secondsLeft,
}: {
  tokens: AccessTokens;
  holder: TokenHolder;
  person: Pick<SessionHolder, 'email' | 'user_name'>;
  refreshToken: string;
  /** Of the refresh token's life. */
  secondsLeft: number;
}): Promise<TokenAnswer> {
  return {
    access_token: await tokens.sign(holder),
    token_type: 'Bearer',
    expires_in: accessTokenSeconds,
    refresh_token: refreshToken,
    refresh_expires_in: Math.max(secondsLeft, 0),
    user: { id: holder.userId, email, name },
  };
}
