import { randomUUID } from 'node:crypto';
import { type CryptoKey, exportJWK, generateKeyPair, importJWK, SignJWT, UnsecuredJWT } from 'jose';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { tokenAudience } from '../../../api/tokens/access-tokens.ts';
import { readTokenKeys } from '../../../api/tokens/read-token-keys.ts';
import { insertAuthSession } from '../../../shared/db/auth-sessions.ts';
import { newId } from '../../../shared/ids.ts';
import { testIssuer, testTokenKeys } from '../../support/token-keys.ts';
import { callWith, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';

const nobody = '127.0.0.1:1';
const path = '/api/v1/agents';

describe('an access token', () => {
  let api: TestApi;
  let account: TestAccount;
  let ann: TestPerson;
  let kid: string;
  let privateKey: CryptoKey;
  let publicJwk: object;
  const lines: string[] = [];

  beforeAll(async () => {
    const log = pino({ level: 'trace' }, { write: (line) => void lines.push(line) });
    api = await startTestApi({ temporalAddress: nobody, log });
    account = await api.account();
    const keys = readTokenKeys((await testTokenKeys()).keysFile);
    kid = keys.current().kid;
    privateKey = (await importJWK(keys.current().jwk, 'ES256')) as CryptoKey;
    publicJwk = keys.publicJwks.keys[0]!;
  });
  beforeEach(async () => {
    ann = await account.person('ann@example.com');
  });
  afterAll(() => api?.stop());

  const asToken = (token: string) => callWith(api.url, { authorization: `Bearer ${token}` });
  const nowSeconds = () => Math.floor(Date.now() / 1000);
  const claims = (change: Record<string, unknown> = {}) => ({
    iss: testIssuer,
    aud: tokenAudience,
    sub: ann.userId,
    sid: ann.sessionId,
    acct: account.id,
    iat: nowSeconds(),
    exp: nowSeconds() + 3600,
    jti: randomUUID(),
    ...change,
  });
  const sign = (change: Record<string, unknown> = {}) =>
    new SignJWT(JSON.parse(JSON.stringify(claims(change)))).setProtectedHeader({ alg: 'ES256', kid }).sign(privateKey);

  it('opens every endpoint to its account, as a key does', async () => {
    const { call } = await account.person('ann@example.com');
    const made = await call('POST', path, { agent_name: 'by token', chain: 'eip155:31337' });
    expect(made.status).toBe(200);
    expect((await account.call('GET', `${path}/${made.body.id}`)).body).toEqual(made.body);
    const other = await (await api.account()).person('ann@example.com');
    expect((await other.call('GET', `${path}/${made.body.id}`)).status).toBe(404);
  });

  it('is as good when the address is not verified, and when the scheme is in lower case', async () => {
    const person = await account.person('ann@example.com', { emailVerified: false });
    expect((await person.call('GET', path)).status).toBe(200);
    expect((await callWith(api.url, { authorization: `bearer ${person.token}` })('GET', path)).status).toBe(200);
    expect((await asToken(await sign())('GET', path)).status).toBe(200);
  });

  it('counts beside a key of the same account, and only of the same', async () => {
    const { token } = await account.person('ann@example.com');
    const both = (key: string, bearer: string) =>
      callWith(api.url, { 'x-api-key': key, authorization: `Bearer ${bearer}` })('GET', path);
    expect((await both(account.key, token)).status).toBe(200);
    const other = await api.account();
    expect((await both(other.key, token)).status).toBe(401);
    expect((await both(`${account.key}x`, token)).status).toBe(401);
    expect((await both(account.key, `${token}x`)).status).toBe(401);
  });

  it.each<[string, () => Promise<string> | string]>([
    ['is none', () => 'x'],
    ['is empty in its parts', () => '..'],
    ['is altered', async () => `${(await sign()).slice(0, -4)}AAAA`],
    ['is not signed (alg none)', () => new UnsecuredJWT(claims()).encode()],
    [
      'is signed with the public key as if it were a secret (HS256)',
      async () => {
        const secret = new TextEncoder().encode(JSON.stringify(publicJwk));
        return new SignJWT(claims()).setProtectedHeader({ alg: 'HS256', kid }).sign(secret);
      },
    ],
    [
      'is signed by another key that calls itself by the same name',
      async () => {
        const other = await generateKeyPair('ES256');
        return new SignJWT(claims()).setProtectedHeader({ alg: 'ES256', kid }).sign(other.privateKey);
      },
    ],
    [
      'brings its own key',
      async () => {
        const { privateKey, publicKey } = await generateKeyPair('ES256');
        const jwk = await exportJWK(publicKey);
        return new SignJWT(claims()).setProtectedHeader({ alg: 'ES256', jwk }).sign(privateKey);
      },
    ],
    [
      'is of another algorithm',
      async () => {
        const { privateKey } = await generateKeyPair('EdDSA');
        return new SignJWT(claims()).setProtectedHeader({ alg: 'EdDSA', kid }).sign(privateKey);
      },
    ],
    [
      'names a key that the issuer does not have',
      () => new SignJWT(claims()).setProtectedHeader({ alg: 'ES256', kid: 'other' }).sign(privateKey),
    ],
    ['has expired', () => sign({ exp: nowSeconds() - 1 })],
    ['expires now', () => sign({ exp: nowSeconds() })],
    ['is not valid yet', () => sign({ nbf: nowSeconds() + 60 })],
    ['is of another issuer', () => sign({ iss: 'other' })],
    ['is for another audience', () => sign({ aud: 'other' })],
    ['has no expiry', () => sign({ exp: undefined })],
    ['has no subject', () => sign({ sub: undefined })],
    ['has no session', () => sign({ sid: undefined })],
    ['has no account', () => sign({ acct: undefined })],
    ['has no id', () => sign({ jti: undefined })],
    ['has no time of issue', () => sign({ iat: undefined })],
    ['has a session that is no text', () => sign({ sid: 5 })],
    ['has an empty subject', () => sign({ sub: '' })],
    ['is of a session that does not exist', () => sign({ sid: newId('sid') })],
    ['is of a session that can be none', () => sign({ sid: "' or 1=1" })],
    [
      'is of another person than the session',
      async () => sign({ sub: (await account.person('bob@example.com')).userId }),
    ],
    [
      'is of another account than the session, to which the person belongs as well',
      async () => {
        const other = await api.account();
        await other.person('ann@example.com');
        return sign({ acct: other.id });
      },
    ],
    [
      'is of a session for an account to which the person never belonged',
      async () => {
        const other = await api.account();
        const sid = await insertAuthSession(api.pool, { accountId: other.id, userId: ann.userId });
        return sign({ acct: other.id, sid });
      },
    ],
    [
      'is of a session that was revoked',
      async () => {
        await ann.call('POST', '/api/v1/auth/logout');
        return sign();
      },
    ],
    [
      'is of somebody who does not belong to the account any more',
      async () => {
        const left = await account.person('left@example.com');
        await api.pool.query('delete from members where user_id = $1', [left.userId]);
        return left.token;
      },
    ],
    ['is of an account that does not exist', () => sign({ acct: 'acct_00000000000000000000000000' })],
    ['is of an account that can be none', () => sign({ acct: "' or 1=1" })],
    ['is longer than any of ours', () => sign({ more: 'x'.repeat(5000) })],
  ])('is refused when it %s', async (_what, make) => {
    const token = await make();
    const { status, body, headers } = await asToken(token)('GET', path);
    expect([status, body.code, body.type]).toEqual([401, 'authentication_failed', 'authentication_error']);
    expect(headers.get('www-authenticate')).toMatch(
      /^Bearer realm="purser", error="invalid_token", error_description="[^"]+"$/,
    );
    expect(body.message).not.toContain(token);
  });

  it('tells whoever is signed out that they are, and nobody else', async () => {
    expect((await ann.call('GET', path)).status).toBe(200);
    await ann.call('POST', '/api/v1/auth/logout');
    expect((await ann.call('GET', path)).body.message).toBe('You are signed out. Sign in again.');
    expect((await asToken(await sign({ aud: 'other' }))('GET', path)).body.message).toBe(
      'The access token is not valid.',
    );
  });

  it('counts with the role that the person has now', async () => {
    const made = () => ann.call('POST', path, { agent_name: `by role ${randomUUID()}`, chain: 'eip155:31337' });
    expect((await made()).status).toBe(200);
    const setRole = (role: string) =>
      api.pool.query('update members set role = $2 where user_id = $1 and account_id = $3', [
        ann.userId,
        role,
        account.id,
      ]);
    await setRole('viewer');
    expect((await made()).status).toBe(403);
    expect((await ann.call('GET', path)).status).toBe(200);
    await setRole('owner');
    expect((await made()).status).toBe(200);
  });

  it('says that it has expired, so that one signs in again', async () => {
    const { call } = await account.person('ann@example.com', { lifetimeSeconds: -1 });
    expect((await call('GET', path)).body.message).toBe('The access token has expired. Sign in again.');
  });

  it.each(['Bearer', 'Basic dXNlcjpwYXNz', 'Bearer a b', 'Bearer a,b', 'Token x'])(
    'is not found in the header %j, which says what is right',
    async (authorization) => {
      const { status, body } = await callWith(api.url, { authorization })('GET', path);
      expect([status, body.message]).toEqual([401, 'The header Authorization must be "Bearer" and an access token.']);
    },
  );

  it('is asked for where nothing was sent', async () => {
    const { status, headers } = await callWith(api.url, {})('GET', path);
    expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="purser"']);
  });

  it('is in no log, nor is any part of it', async () => {
    const good = await account.person('ann@example.com');
    await good.call('GET', path);
    const bad = await sign({ aud: 'other' });
    await asToken(bad)('GET', path);
    const said = lines.join('');
    expect(said).toContain(`"user_id":"${good.userId}"`);
    for (const token of [good.token, bad])
      for (const part of token.split('.').slice(1)) expect(said).not.toContain(part);
    expect(said).not.toContain(good.sessionId);
  });

  it('is refused by a service that has no keys for tokens, which says so', async () => {
    const without = await startTestApi({ temporalAddress: nobody, takesTokens: false });
    try {
      const other = await without.account();
      const { status, body } = await (await other.person('ann@example.com')).call('GET', path);
      expect([status, body.message]).toEqual([
        401,
        'This service takes no access tokens: it has no keys for them. Send an API key.',
      ]);
    } finally {
      await without.stop();
    }
  });

  it('is made with the claims that are checked', async () => {
    const holder = { accountId: account.id, userId: ann.userId, sessionId: ann.sessionId };
    const token = await api.tokens.sign(holder, { lifetimeSeconds: 60 });
    const [, payload] = token.split('.');
    const made = JSON.parse(Buffer.from(payload!, 'base64url').toString());
    expect(Object.keys(made).sort()).toEqual(Object.keys(claims()).sort());
    expect(made.exp - made.iat).toBe(60);
  });
});
