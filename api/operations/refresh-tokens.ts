import { type Acting, bySystem, insertAudit } from '../../shared/db/audit.ts';
import { findSessionHolder } from '../../shared/db/auth-sessions.ts';
import { claimKey } from '../../shared/db/idempotency-keys.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import {
  findRefreshToken,
  insertRefreshToken,
  lockRefreshToken,
  type RefreshTokenRow,
  useRefreshToken,
} from '../../shared/db/refresh-tokens.ts';
import { judgeRefresh } from '../../shared/domain/refresh.ts';
import type { Origin } from '../acting.ts';
import { requireAllowedAddress } from '../address-not-allowed.ts';
import { answerWasSecret } from '../idempotency.ts';
import type { TokenAnswer } from '../schemas/auth.ts';
import type { AccessTokens, TokenHolder } from '../tokens/access-tokens.ts';
import { answerTokens } from '../tokens/issue-tokens.ts';
import {
  hashRefreshToken,
  isRefreshToken,
  newRefreshToken,
  openSuccessor,
  refreshTokenSeconds,
  sealSuccessor,
} from '../tokens/refresh-token.ts';
import { revokeSession } from '../tokens/revoke-session.ts';
import { invalidToken, type Unauthenticated } from '../unauthenticated.ts';

/** How long an Idempotency-Key lives. */
const keyLifetimeMs = 24 * 60 * 60 * 1000;

interface RefreshDependencies {
  readonly pool: Pool;
  readonly tokens: AccessTokens;
}

interface Refresh {
  readonly token: string;
  readonly origin: Origin;
  /** A second request with it is refused, whatever has become of the token. */
  readonly idempotencyKey: string | undefined;
  /** What the key belongs to. */
  readonly path: string;
}

/**
 * The next pair of tokens for a refresh token, which is used by it. For some seconds everybody who repeats gets the same
 * successor, whichever process they ask; whoever uses it later has it from somebody, and ends the session of both.
 * @throws PurserError 401; 403 from outside the account's networks; 409 where the Idempotency-Key was used before
 */
export async function refreshTokens(deps: RefreshDependencies, refresh: Refresh): Promise<TokenAnswer> {
  if (!isRefreshToken(refresh.token)) throw notValid();
  try {
    return await inTransaction(deps.pool, (db) => answerRefresh(db, { tokens: deps.tokens, refresh }));
  } catch (error) {
    if (!(error instanceof Reused)) throw error;
    const { holder } = error;
    const acting = { ...bySystem, ...refresh.origin };
    // If this process dies before, the next use of the token ends the session.
    await inTransaction(deps.pool, (db) => revokeSession(db, { holder, reason: 'token_reused', acting }));
    const message =
      'The refresh token was used before: somebody else may have it, so the session is over. Sign in again.';
    throw refused(message, { reason: 'token_reused', holder });
  }
}

/** Rolls back what was begun for a token that was used before, also the claim of its key. */
class Reused extends Error {
  override readonly name = 'Reused';
  readonly holder: TokenHolder;

  constructor({ holder }: { holder: TokenHolder }) {
    super('A refresh token was used again.');
    this.holder = holder;
  }
}

async function answerRefresh(
  db: Queryable,
  { tokens, refresh }: { tokens: AccessTokens; refresh: Refresh },
): Promise<TokenAnswer> {
  const { token, origin } = refresh;
  const hash = hashRefreshToken(token);
  const seen = await findRefreshToken(db, { hash });
  if (!seen) throw notValid();
  const { account_id: accountId, user_id: userId, session_id: sessionId } = seen;
  const holder = { accountId, userId, sessionId };
  const person = await findSessionHolder(db, { id: sessionId, accountId, userId });
  if (!person) throw refused('You are signed out. Sign in again.', { reason: 'signed_out', holder });
  requireAllowedAddress({
    networks: person.ip_allowlist,
    address: origin.ipAddress,
    known: { accountId, actor: { type: 'user', id: userId, name: person.email } },
  });
  // Before the lock, so that nobody waits for the one who holds it and a key.
  await claim(db, { holder, refresh, hash });
  await lockRefreshToken(db, { hash });
  const row = await findRefreshToken(db, { hash });
  // It was forgotten a moment ago.
  if (!row) throw notValid();
  switch (judgeRefresh({ secondsLeft: row.seconds_left, usedMsAgo: row.used_ms_ago })) {
    case 'expired':
      throw refused('The refresh token has expired. Sign in again.', { reason: 'token_expired', holder });
    case 'reused':
      throw new Reused({ holder });
    case 'repeat':
      return answerTokens({ tokens, holder, person, ...(await successorOf(db, { token, row })) });
    case 'rotate': {
      const acting = { actor: { type: 'user', id: userId, name: person.email } as const, ...origin };
      return answerTokens({ tokens, holder, person, ...(await rotate(db, { token, hash, holder, acting })) });
    }
  }
}

/** Takes the request's key, if it has one. The answer is never kept. @throws PurserError 409 where it is taken */
async function claim(
  db: Queryable,
  {
    holder: { accountId, sessionId },
    refresh: { idempotencyKey: key, path },
    hash,
  }: { holder: TokenHolder; refresh: Refresh; hash: Buffer },
): Promise<void> {
  if (key === undefined) return;
  const isClaimed = await claimKey(db, {
    ...{ accountId, method: 'POST', path, key, bodyHash: hash, resourceId: sessionId },
    ...{ leaseMs: 0, lifetimeMs: keyLifetimeMs },
  });
  if (isClaimed) return;
  throw answerWasSecret(key);
}

/** What the token was used for. */
async function successorOf(db: Queryable, { token, row }: { token: string; row: RefreshTokenRow }) {
  const refreshToken = await openSuccessor(row.sealed_successor!, { token });
  const found = await findRefreshToken(db, { hash: hashRefreshToken(refreshToken) });
  if (!found) throw new Error('A refresh token was used for a successor that is not there.');
  return { refreshToken, secondsLeft: found.seconds_left };
}

async function rotate(
  db: Queryable,
  { token, hash, holder, acting }: { token: string; hash: Buffer; holder: TokenHolder; acting: Acting },
) {
  const { accountId, sessionId } = holder;
  const refreshToken = newRefreshToken();
  const secondsLeft = refreshTokenSeconds;
  await useRefreshToken(db, { hash, sealedSuccessor: await sealSuccessor(refreshToken, { token }) });
  await insertRefreshToken(db, {
    ...{ hash: hashRefreshToken(refreshToken), sessionId, lifetimeSeconds: secondsLeft },
  });
  await insertAudit(db, {
    ...{ accountId, action: 'session.refreshed', acting, result: 'success' },
    ...{ resourceType: 'session', resourceId: sessionId },
  });
  return { refreshToken, secondsLeft };
}

function notValid(): Unauthenticated {
  return invalidToken('The refresh token is not valid. Sign in again.', { reason: 'token_not_valid' });
}

function refused(message: string, { reason, holder }: { reason: string; holder: TokenHolder }): Unauthenticated {
  const actor = { type: 'user', id: holder.userId, name: null } as const;
  return invalidToken(message, { reason }).knowing([{ accountId: holder.accountId, actor }]);
}
