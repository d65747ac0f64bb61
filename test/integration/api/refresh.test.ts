import { decodeJwt } from 'jose';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newRefreshToken } from '../../../api/tokens/refresh-token.ts';
import { createPool } from '../../../shared/db/pool.ts';
import { callWith, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import {
  endOf,
  expireNow,
  isSignedIn,
  letPass,
  type Refresher,
  refresherAt,
  refreshPath,
  rowsOf,
  startRefreshing,
} from './refresh-calls.ts';

const monthSeconds = 30 * 24 * 60 * 60;

let api: TestApi;
let account: TestAccount;
let refresh: ReturnType<typeof refresherAt>;
const lines: string[] = [];
/** Every token that was given out or sent. */
const secrets: string[] = [];

beforeAll(async () => {
  const log = pino({ level: 'trace' }, { write: (line) => void lines.push(line) });
  api = await startTestApi({ temporalAddress: '127.0.0.1:1', log });
  account = await api.account();
  const ask = refresherAt(api.url);
  refresh = async (token, headers) => {
    const answer = await ask(token, headers);
    secrets.push(token);
    if (answer.status === 200) secrets.push(answer.body.refresh_token, answer.body.access_token);
    return answer;
  };
});
afterAll(() => api?.stop());

const start = () => startRefreshing(api, account);

async function auditOf({ sessionId }: Refresher) {
  const { rows } = await api.pool.query(
    `select action, actor_type, actor_id, result, ip_address, user_agent, metadata from audit_inbox
     where resource_id = $1 order by created_at, id`,
    [sessionId],
  );
  return rows;
}

async function expectRefused(answer: Awaited<ReturnType<typeof refresh>>, message: RegExp) {
  expect([answer.status, answer.body.code, answer.body.type]).toEqual([
    401,
    'authentication_failed',
    'authentication_error',
  ]);
  expect(answer.body.message).toMatch(message);
  expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer realm="purser", error="invalid_token"/);
}

describe('a refresh token', () => {
  it('gives the next pair of tokens, for whom the session is of', async () => {
    const person = await start();
    const { status, headers, body } = await refresh(person.refreshToken);
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(body).toEqual({
      access_token: expect.any(String),
      token_type: 'Bearer',
      expires_in: 3600,
      refresh_token: expect.stringMatching(/^purser_refresh_[\w-]{43}$/),
      refresh_expires_in: monthSeconds,
      user: { id: person.userId, email: expect.stringMatching(/^refresher-\d+@example\.com$/), name: null },
    });
    expect(decodeJwt(body.access_token)).toMatchObject({ acct: account.id, sub: person.userId, sid: person.sessionId });
    expect(await isSignedIn(api.url, body.access_token)).toBe(true);
    const next = await refresh(body.refresh_token);
    expect(next.status).toBe(200);
    expect(next.body.refresh_token).not.toBe(body.refresh_token);
    expect(await isSignedIn(api.url, person.token)).toBe(true);
  });

  it('gives the very same successor again for 30 seconds, with an access token of its own', async () => {
    const person = await start();
    const first = await refresh(person.refreshToken);
    await letPass(api, { ...person, seconds: 20 });
    const again = await refresh(person.refreshToken);
    expect([again.status, again.body.refresh_token]).toEqual([200, first.body.refresh_token]);
    expect(again.body.refresh_expires_in).toBeGreaterThan(monthSeconds - 60);
    expect(again.body.refresh_expires_in).toBeLessThanOrEqual(monthSeconds - 20);
    expect(again.body.access_token).not.toBe(first.body.access_token);
    expect(await isSignedIn(api.url, again.body.access_token)).toBe(true);
    expect(await rowsOf(api, person)).toHaveLength(2);
    // Also where the successor was used meanwhile.
    const third = await refresh(first.body.refresh_token);
    expect((await refresh(person.refreshToken)).body.refresh_token).toBe(first.body.refresh_token);
    expect((await refresh(first.body.refresh_token)).body.refresh_token).toBe(third.body.refresh_token);
    expect(await endOf(api, person)).toBeNull();
  });

  it('that is used later ends the session, and every token of it', async () => {
    const person = await start();
    const { body } = await refresh(person.refreshToken);
    await letPass(api, { ...person, seconds: 31 });
    await expectRefused(await refresh(person.refreshToken), /used before: somebody else may have it/);
    expect(await endOf(api, person)).toBe('token_reused');
    for (const token of [person.token, body.access_token]) expect(await isSignedIn(api.url, token)).toBe(false);
    await expectRefused(await refresh(body.refresh_token), /^You are signed out/);
    await expectRefused(await refresh(person.refreshToken), /^You are signed out/);
    expect((await rowsOf(api, person)).map(({ is_used }) => is_used)).toEqual([true, false]);
  });

  it('that is used later ends no other session of the same person', async () => {
    const person = await start();
    const other = await startRefreshing(api, account);
    await refresh(person.refreshToken);
    await letPass(api, { ...person, seconds: 31 });
    await refresh(person.refreshToken);
    expect((await refresh(other.refreshToken)).status).toBe(200);
  });

  it('that is used again counts as used also when its time is over', async () => {
    const person = await start();
    await refresh(person.refreshToken);
    await letPass(api, { ...person, seconds: monthSeconds + 60 });
    await expectRefused(await refresh(person.refreshToken), /used before/);
    expect(await endOf(api, person)).toBe('token_reused');
  });

  it('is good for nothing when it has expired, was never given out, or is none', async () => {
    const person = await start();
    await expireNow(api, { token: person.refreshToken });
    await expectRefused(await refresh(person.refreshToken), /^The refresh token has expired\. Sign in again\.$/);
    expect(await endOf(api, person)).toBeNull();
    for (const token of [newRefreshToken(), '', 'x', `${person.refreshToken}x`, person.token, 'x'.repeat(10_000)])
      await expectRefused(await refresh(token), /^The refresh token is not valid\. Sign in again\.$/);
  });

  it('is good for nothing once the session is over, or the person does not belong to the account any more', async () => {
    const [signedOut, removed] = [await start(), await start()];
    expect((await signedOut.call('POST', '/api/v1/auth/logout')).status).toBe(200);
    await api.pool.query('delete from members where user_id = $1', [removed.userId]);
    for (const { refreshToken } of [signedOut, removed])
      await expectRefused(await refresh(refreshToken), /^You are signed out\. Sign in again\.$/);
    // Nothing was used by that.
    expect((await rowsOf(api, removed)).map(({ is_used }) => is_used)).toEqual([false]);
  });

  it.each<[string, unknown, number]>([
    ['no body', undefined, 400],
    ['no token', {}, 400],
    ['a token that is no text', { refresh_token: 5 }, 400],
    ['another member', { refresh_token: 'x', access_token: 'y' }, 400],
    ['NUL in the token', { refresh_token: 'purser_refresh_\u0000' }, 401],
  ])('is not found in %s', async (_what, body, status) => {
    expect((await callWith(api.url, {})('POST', refreshPath, body)).status).toBe(status);
  });

  it('is taken whatever other credentials are sent besides', async () => {
    const person = await start();
    const headers = { 'x-api-key': 'x', authorization: 'Bearer x' };
    expect((await refresh(person.refreshToken, headers)).status).toBe(200);
  });

  it('is taken by a service only that has keys for tokens', async () => {
    const without = await startTestApi({ temporalAddress: '127.0.0.1:1', takesTokens: false });
    try {
      await expectRefused(await refresherAt(without.url)(newRefreshToken()), /^This service gives no tokens/);
    } finally {
      await without.stop();
    }
  });
});

describe('a refresh with an Idempotency-Key', () => {
  const withKey = (key: string) => ({ 'idempotency-key': key });

  it('is refused when it is repeated, at once and later, and that counts as no second use', async () => {
    const person = await start();
    const first = await refresh(person.refreshToken, withKey('a'));
    expect(first.status).toBe(200);
    for (const seconds of [0, 31]) {
      await letPass(api, { ...person, seconds });
      for (const token of [person.refreshToken, first.body.refresh_token]) {
        const { status, body } = await refresh(token, withKey('a'));
        expect([status, body.code]).toEqual([409, 'idempotency_key_conflict']);
        expect(body.message).not.toContain('purser_refresh');
      }
    }
    expect(await endOf(api, person)).toBeNull();
    expect((await refresh(first.body.refresh_token, withKey('b'))).status).toBe(200);
  });

  it('leaves the key free where it was refused', async () => {
    const [used, other] = [await start(), await start()];
    await refresh(used.refreshToken);
    await letPass(api, { ...used, seconds: 31 });
    await expectRefused(await refresh(used.refreshToken, withKey('c')), /used before/);
    expect(await endOf(api, used)).toBe('token_reused');
    expect((await refresh(other.refreshToken, withKey('c'))).status).toBe(200);
  });

  it('is another one in another account', async () => {
    const [mine, others] = [await start(), await startRefreshing(api, await api.account())];
    for (const { refreshToken } of [mine, others]) expect((await refresh(refreshToken, withKey('d'))).status).toBe(200);
  });
});

describe('the audit log', () => {
  it('has each refresh once, and whom a session was taken from', async () => {
    const person = await start();
    const from = { 'user-agent': 'refresher/1' };
    await refresh(person.refreshToken, from);
    await refresh(person.refreshToken, from);
    await letPass(api, { ...person, seconds: 31 });
    for (const _ of [1, 2, 3]) await refresh(person.refreshToken, from);
    const where = { ip_address: '127.0.0.1', user_agent: 'refresher/1', result: 'success' };
    expect(await auditOf(person)).toEqual([
      { action: 'session.refreshed', actor_type: 'user', actor_id: person.userId, ...where, metadata: {} },
      {
        ...{ action: 'session.revoked', actor_type: 'system', actor_id: null, ...where },
        metadata: { reason: 'token_reused', user_id: person.userId },
      },
    ]);
  });

  it('has whom an account has refused', async () => {
    const other = await api.account();
    const person = await startRefreshing(api, other);
    await expireNow(api, { token: person.refreshToken });
    await refresh(person.refreshToken);
    const { rows } = await api.pool.query(
      `select actor_type, actor_id, result, metadata from audit_inbox where account_id = $1 and action = 'credential.denied'`,
      [other.id],
    );
    expect(rows).toEqual([
      {
        ...{ actor_type: 'user', actor_id: person.userId, result: 'denied' },
        metadata: { reason: 'token_expired', method: 'POST', path: refreshPath },
      },
    ]);
  });
});

describe('signing out', () => {
  it('ends the session at once, and that one only', async () => {
    const person = await start();
    const { body: pair } = await refresh(person.refreshToken);
    const { status, body, headers } = await person.call('POST', '/api/v1/auth/logout');
    expect([status, body]).toEqual([200, { id: person.sessionId, revoked: true }]);
    expect(headers.get('cache-control')).toBe('no-store');
    for (const token of [person.token, pair.access_token]) expect(await isSignedIn(api.url, token)).toBe(false);
    expect((await refresh(pair.refresh_token)).status).toBe(401);
    const again = await person.call('POST', '/api/v1/auth/logout');
    expect([again.status, again.body.message]).toEqual([401, 'You are signed out. Sign in again.']);
    const [, entry, ...more] = await auditOf(person);
    expect(entry).toMatchObject({ action: 'user.signed_out', actor_type: 'user', actor_id: person.userId });
    expect(more).toEqual([]);
  });

  it('is not for API keys, which have no session', async () => {
    const { status, body } = await account.call('POST', '/api/v1/auth/logout');
    expect([status, body.message]).toEqual([403, 'An API key has no session: delete the key instead.']);
  });

  it('twenty times at once is noted once', async () => {
    const person = await start();
    const answers = await Promise.all(Array.from({ length: 20 }, () => person.call('POST', '/api/v1/auth/logout')));
    for (const { status } of answers) expect([200, 401]).toContain(status);
    expect(answers.some(({ status }) => status === 200)).toBe(true);
    expect(await auditOf(person)).toMatchObject([{ action: 'user.signed_out' }]);
  });
});

describe('tokens', () => {
  it('F9 are in no log line, and in no row of the database', async () => {
    const said = lines.join('');
    expect(said).toContain(refreshPath);
    const given = secrets.filter((secret) => secret.length > 20 && secret.length < 5_000);
    expect(given.length).toBeGreaterThan(30);
    const owner = createPool({ url: api.ownerUrl, application: 'test-owner', max: 1 });
    const { rows: tables } = await owner.query<{ name: string }>(
      `select format('%I', tablename) as name from pg_tables where schemaname = 'public'`,
    );
    expect(tables.map(({ name }) => name)).toContain('refresh_tokens');
    const kept: string[] = [];
    for (const { name } of tables) {
      const { rows } = await owner.query<{ text: string }>(`select row_to_json(t)::text as text from ${name} t`);
      kept.push(...rows.map(({ text }) => text));
    }
    await owner.end();
    const all = kept.join('\n');
    for (const secret of given)
      for (const place of [said, all]) if (place.includes(secret)) throw new Error('A token was kept.');
  });
});
