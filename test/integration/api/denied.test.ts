import { randomUUID } from 'node:crypto';
import type { Request, Response } from 'express';
import { importJWK, SignJWT } from 'jose';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createDenialLog, type Denial } from '../../../api/denial-log.ts';
import { tokenAudience } from '../../../api/tokens/access-tokens.ts';
import { readTokenKeys } from '../../../api/tokens/read-token-keys.ts';
import { newId } from '../../../shared/ids.ts';
import { createLogger } from '../../../shared/log.ts';
import { testIssuer, testTokenKeys } from '../../support/token-keys.ts';
import { callWith, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { askPeople } from './questions.ts';

const ann = 'ann@example.com';
const path = '/api/v1/agents';

describe('the audit log of what is refused', () => {
  let api: TestApi;
  let account: TestAccount;
  let keyId: string;
  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
  });
  afterAll(() => api?.stop());
  beforeEach(async () => {
    account = await api.account();
    const { rows } = await api.pool.query('select id from api_keys where account_id = $1', [account.id]);
    keyId = rows[0].id;
  });

  const denials = async ({ id }: { id: string }) =>
    (
      await api.pool.query(
        `select action, actor_type, actor_id, result, resource_type, resource_id, ip_address, user_agent, request_id,
                metadata
         from audit_inbox where account_id = $1 and result = 'denied' order by created_at, id`,
        [id],
      )
    ).rows;
  const count = async () =>
    (await api.pool.query(`select count(*)::int as n from audit_inbox where result = 'denied'`)).rows[0].n as number;
  const send = (credentials: Record<string, string>, requestId = randomUUID() as string) =>
    callWith(api.url, credentials)('GET', `${path}?page_size=1`, undefined, {
      'x-request-id': requestId,
      'user-agent': 'denied/1',
    });
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  const expired = () => account.person(ann, { lifetimeSeconds: -60 });
  /** Signed by the issuer. */
  const sign = async (claims: Record<string, unknown>) => {
    const { kid, jwk } = readTokenKeys((await testTokenKeys()).keysFile).current();
    const nowSeconds = Math.floor(Date.now() / 1000);
    const good = { iss: testIssuer, aud: tokenAudience, sub: 'user_1', sid: 'session_1', acct: account.id };
    const times = { iat: nowSeconds, exp: nowSeconds + 60, jti: randomUUID() };
    return new SignJWT(JSON.parse(JSON.stringify({ ...good, ...times, ...claims })))
      .setProtectedHeader({ alg: 'ES256', kid })
      .sign(await importJWK(jwk, 'ES256'));
  };

  it('tells whose expired token it was and from where, and not what it was', async () => {
    const { token, userId } = await expired();
    expect((await send(bearer(token), 'request-1')).status).toBe(401);
    expect(await denials(account)).toEqual([
      {
        ...{ action: 'credential.denied', actor_type: 'user', actor_id: userId, result: 'denied' },
        ...{ resource_type: 'account', resource_id: account.id },
        ...{ ip_address: '127.0.0.1', user_agent: 'denied/1', request_id: 'request-1' },
        metadata: { reason: 'token_expired', method: 'GET', path },
      },
    ]);
    const { rows } = await api.pool.query(
      'select row_to_json(t)::text as text from audit_inbox t where account_id = $1',
      [account.id],
    );
    for (const { text } of rows) expect(text).not.toContain(token.slice(-20));
  });

  it.each<[string, Record<string, unknown>]>([
    ['is for somebody else', { aud: 'another service' }],
    ['has an issuer of another name', { iss: 'another issuer' }],
    ['lacks a claim', { jti: undefined }],
    ['has a claim that is no text', { sid: 7 }],
    ['is good from tomorrow on', { nbf: Math.floor(Date.now() / 1000) + 86_400 }],
  ])('tells of a signed token that %s', async (_what, claims) => {
    expect((await send(bearer(await sign(claims)))).status).toBe(401);
    expect(await denials(account)).toMatchObject([
      { action: 'credential.denied', actor_type: 'user', actor_id: 'user_1', metadata: { reason: 'token_not_valid' } },
    ]);
  });

  it('tells of a token whose session is over, is none, or is not of that person and account', async () => {
    const [person, other] = [await account.person(ann), await account.person('bob@example.com')];
    await person.call('POST', '/api/v1/auth/logout');
    const over = [
      person.token,
      await sign({ sub: person.userId, sid: newId('sid') }),
      await sign({ sub: person.userId, sid: other.sessionId }),
    ];
    for (const token of over) expect((await send(bearer(token))).status).toBe(401);
    const told = { action: 'credential.denied', actor_type: 'user', actor_id: person.userId };
    expect(await denials(account)).toMatchObject(over.map(() => ({ ...told, metadata: { reason: 'signed_out' } })));
  });

  it('knows nothing of a token that nobody has signed, or whose account does not exist', async () => {
    const before = await count();
    const { token } = await expired();
    const [head, , signature] = token.split('.');
    const forged = Buffer.from(JSON.stringify({ acct: account.id, sub: 'user_1' })).toString('base64url');
    for (const bad of [
      `${head}.${forged}.${signature}`,
      await sign({ acct: newId('acct'), exp: 1 }),
      await sign({ acct: newId('acct') }),
      await sign({ acct: { id: account.id }, exp: 1 }),
      await sign({ acct: "'; drop table accounts; --", exp: 1 }),
    ])
      expect((await send(bearer(bad))).status).toBe(401);
    const mistyped = account.key.slice(0, -1) + (account.key.endsWith('x') ? 'y' : 'x');
    expect((await send({ 'x-api-key': mistyped })).status).toBe(401);
    expect((await send({})).status).toBe(401);
    expect(await count()).toBe(before);
  });

  it('tells both accounts of a key and a token that are of different ones', async () => {
    const other = await api.account();
    const { token, userId } = await other.person(ann);
    expect((await send({ 'x-api-key': account.key, ...bearer(token) })).status).toBe(401);
    const metadata = { reason: 'accounts_differ' };
    expect(await denials(account)).toMatchObject([{ actor_type: 'api_key', actor_id: keyId, metadata }]);
    expect(await denials(other)).toMatchObject([{ actor_type: 'user', actor_id: userId, metadata }]);
  });

  it('tells the account of a good credential that came with a bad one, once', async () => {
    const { token } = await account.person(ann);
    expect((await send({ 'x-api-key': account.key, ...bearer('x') })).status).toBe(401);
    expect((await send({ 'x-api-key': 'x', ...bearer(token) })).status).toBe(401);
    expect((await send({ 'x-api-key': account.key, ...bearer((await expired()).token) })).status).toBe(401);
    expect((await denials(account)).map(({ actor_type, metadata }) => [actor_type, metadata.reason])).toEqual([
      ['api_key', 'token_not_valid'],
      ['user', 'key_not_valid'],
      ['api_key', 'token_expired'],
    ]);
  });

  it('tells of a key that asked for what only a person may, and of a person who is not asked', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    const bob = await account.person('bob@example.com');
    const url = `/api/v1/approvals/${asked.approvalId}/approve`;
    for (const call of [account.call, bob.call]) expect((await call('POST', url)).status).toBe(403);
    const reason = { action: 'permission.denied', metadata: { reason: 'approveApproval', method: 'POST', path: url } };
    expect(await denials(account)).toMatchObject([
      { actor_type: 'api_key', actor_id: keyId, ...reason },
      { actor_type: 'user', actor_id: bob.userId, ...reason },
    ]);
  });

  it('has nothing of what is wrong for other reasons', async () => {
    expect((await account.call('POST', path, {})).status).toBe(400);
    expect((await account.call('GET', `${path}/${newId('agent')}`)).status).toBe(404);
    expect(await denials(account)).toEqual([]);
  });

  it('does not get in the way of the answer when it cannot be written', async () => {
    const owner = new pg.Client({ connectionString: api.ownerUrl });
    await owner.connect();
    await owner.query('alter table audit_inbox rename to audit_inbox_away');
    try {
      const { status, body, headers } = await send(bearer((await expired()).token));
      expect([status, body.code]).toEqual([401, 'authentication_failed']);
      expect(headers.get('www-authenticate')).toContain('invalid_token');
    } finally {
      await owner.query('alter table audit_inbox_away rename to audit_inbox');
      await owner.end();
    }
  });

  describe('by whoever asks without end', () => {
    const log = createLogger({ process: 'test', level: 'silent' });
    const asked = (originalUrl = '/api/v1/agents') =>
      ({
        request: { method: 'GET', originalUrl, socket: { remoteAddress: '127.0.0.1' }, get: () => undefined },
        response: { locals: { requestId: 'request', log } },
      }) as unknown as { request: Request; response: Response };
    const denial = (more: Partial<Denial> = {}): Denial => ({
      ...{ accountId: account.id, action: 'credential.denied', reason: 'token_expired' },
      actor: { type: 'user', id: 'user', name: null },
      ...more,
    });

    it('grows by ten a minute for each account and reason, and says how many were left out', async () => {
      let now = 0;
      const noteDenial = createDenialLog({ pool: api.pool, now: () => now });
      const other = await api.account();
      for (let i = 0; i < 200; i += 1) await noteDenial(denial(), asked());
      await noteDenial(denial({ reason: 'token_not_valid' }), asked());
      await noteDenial(denial({ accountId: other.id }), asked());
      expect([(await denials(account)).length, (await denials(other)).length]).toEqual([11, 1]);
      now = 59_999;
      await noteDenial(denial(), asked());
      expect(await denials(account)).toHaveLength(11);
      now = 60_000;
      for (let i = 0; i < 3; i += 1) await noteDenial(denial(), asked());
      const told = (await denials(account)).slice(11).map(({ metadata }) => metadata.left_out_before);
      expect(told).toEqual([191, undefined, undefined]);
    });

    it('holds no more of a path than tells what was asked for, and no token in it', async () => {
      const noteDenial = createDenialLog({ pool: api.pool });
      const token = 'a'.repeat(43);
      await noteDenial(denial(), asked(`/api/v1/agents/${'x/'.repeat(5000)}?key=${token}`));
      await noteDenial(denial(), asked(`/approve/${token}`));
      const paths = (await denials(account)).map(({ metadata }) => metadata.path);
      expect(paths.map((each) => each.length <= 256)).toEqual([true, true]);
      expect(paths.join()).not.toContain(token);
    });
  });
});
