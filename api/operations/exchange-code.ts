import { findAccount } from '../../shared/db/accounts.ts';
import { type Acting, bySystem, insertAudit } from '../../shared/db/audit.ts';
import { insertAuthSession } from '../../shared/db/auth-sessions.ts';
import { type ExchangeCodeRow, lockExchangeCode, useExchangeCode } from '../../shared/db/exchange-codes.ts';
import { claimKey, findKey } from '../../shared/db/idempotency-keys.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import type { Origin } from '../acting.ts';
import { requireAllowedAddress } from '../address-not-allowed.ts';
import { answerWasSecret } from '../idempotency.ts';
import type { TokenAnswer } from '../schemas/auth.ts';
import { hashExchangeCode, isExchangeCode } from '../tokens/exchange-code.ts';
import type { IssueTokens } from '../tokens/issue-tokens.ts';
import { revokeSession } from '../tokens/revoke-session.ts';
import { Unauthenticated } from '../unauthenticated.ts';

/** How long an Idempotency-Key lives. */
const keyLifetimeMs = 24 * 60 * 60 * 1000;

interface Exchange {
  readonly code: string;
  readonly origin: Origin;
  /** A second request with it is refused, and is no second use of the code. */
  readonly idempotencyKey: string | undefined;
  /** What the key belongs to. */
  readonly path: string;
}

/**
 * Begins a session for the code with which a sign-in ended. The code is good for one: whoever brings it a second time, at
 * whichever process, ends the session of the first, because one of the two has it from somebody.
 * @throws PurserError 401, 403, 409
 */
export async function exchangeCode(
  { pool, issueTokens }: { pool: Pool; issueTokens: IssueTokens },
  exchange: Exchange,
): Promise<TokenAnswer> {
  if (!isExchangeCode(exchange.code)) throw notValid();
  const done = await inTransaction(pool, (db) => use(db, { issueTokens, exchange }));
  if ('answer' in done) return done.answer;
  throw done.refusal;
}

/** Refusals that leave something behind are given back, not thrown: the transaction is to stand. */
async function use(
  db: Queryable,
  { issueTokens, exchange }: { issueTokens: IssueTokens; exchange: Exchange },
): Promise<{ readonly answer: TokenAnswer } | { readonly refusal: Unauthenticated }> {
  const hash = hashExchangeCode(exchange.code);
  const row = await lockExchangeCode(db, { hash });
  if (!row) throw notValid();
  await refuseRepeat(db, { row, exchange });
  const { account_id: accountId, user_id: userId } = row;
  if (row.session_id !== null) {
    const holder = { accountId, userId, sessionId: row.session_id };
    await revokeSession(db, { holder, reason: 'code_reused', acting: { ...bySystem, ...exchange.origin } });
    const message = 'This exchange code was used before, so that the session it began is ended. Sign in again.';
    return { refusal: refused(message, { reason: 'code_reused', row }) };
  }
  if (row.is_expired) throw refused('This exchange code has expired. Sign in again.', { reason: 'code_expired', row });
  await refuseOutsider(db, { row, exchange });
  await claim(db, { row, exchange });
  const sessionId = await insertAuthSession(db, { accountId, userId });
  await useExchangeCode(db, { hash, sessionId });
  const answer = await issueTokens(db, { accountId, userId, sessionId });
  const actor = { type: 'user', id: userId, name: answer.user.email } as const;
  await noteSignIn(db, { accountId, sessionId, acting: { actor, ...exchange.origin } });
  return { answer };
}

const scopeOf = ({ row, exchange }: { row: ExchangeCodeRow; exchange: Exchange }, key: string) => ({
  accountId: row.account_id,
  method: 'POST',
  path: exchange.path,
  key,
});

async function refuseRepeat(db: Queryable, of: { row: ExchangeCodeRow; exchange: Exchange }): Promise<void> {
  const { idempotencyKey } = of.exchange;
  if (idempotencyKey === undefined) return;
  if (await findKey(db, scopeOf(of, idempotencyKey))) throw answerWasSecret(idempotencyKey);
}

/** The other one may have another code of the account: for that the lock on ours is none. */
async function claim(db: Queryable, of: { row: ExchangeCodeRow; exchange: Exchange }): Promise<void> {
  const { idempotencyKey, code } = of.exchange;
  if (idempotencyKey === undefined) return;
  const isClaimed = await claimKey(db, {
    ...scopeOf(of, idempotencyKey),
    bodyHash: hashExchangeCode(code),
    resourceId: null,
    leaseMs: 0,
    lifetimeMs: keyLifetimeMs,
  });
  if (!isClaimed) throw answerWasSecret(idempotencyKey);
}

/** The code stays good for whoever brings it from inside the account's networks. */
async function refuseOutsider(db: Queryable, { row, exchange }: { row: ExchangeCodeRow; exchange: Exchange }) {
  const account = await findAccount(db, { id: row.account_id });
  requireAllowedAddress({
    networks: account?.ip_allowlist ?? [],
    address: exchange.origin.ipAddress,
    known: { accountId: row.account_id, actor: { type: 'user', id: row.user_id, name: null } },
  });
}

function noteSignIn(
  db: Queryable,
  { accountId, sessionId, acting }: { accountId: string; sessionId: string; acting: Acting },
): Promise<void> {
  return insertAudit(db, {
    accountId,
    action: 'user.signed_in',
    acting,
    resourceType: 'session',
    resourceId: sessionId,
    result: 'success',
  });
}

const notValid = () =>
  new Unauthenticated('The exchange code is not valid. Sign in again.', { reason: 'code_not_valid' });

function refused(message: string, { reason, row }: { reason: string; row: ExchangeCodeRow }): Unauthenticated {
  const actor = { type: 'user', id: row.user_id, name: null } as const;
  return new Unauthenticated(message, { reason }).knowing([{ accountId: row.account_id, actor }]);
}
