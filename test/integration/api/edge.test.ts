import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeApiKey } from '../../../shared/api-key.ts';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi } from './harness.ts';

const nobody = '127.0.0.1:1';

describe('the edge', () => {
  let api: TestApi;
  let account: TestAccount;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: nobody });
    account = await api.account();
  });
  afterAll(() => api?.stop());

  it.each<[string, () => Record<string, string>]>([
    ['no key', () => ({})],
    ['an empty key', () => ({ 'x-api-key': '' })],
    ['a word', () => ({ 'x-api-key': 'secret' })],
    ['a key that was never given out', () => ({ 'x-api-key': makeApiKey({ environment: 'sandbox' }).key })],
    ['a key of the other environment', () => ({ 'x-api-key': makeApiKey({ environment: 'production' }).key })],
    ['a mistyped key', () => ({ 'x-api-key': `${account.key.slice(0, -1)}${account.key.endsWith('0') ? '1' : '0'}` })],
    ['two keys', () => ({ 'x-api-key': `${account.key}, ${account.key}` })],
    ['a Bearer token', () => ({ authorization: 'Bearer x' })],
    ['a key and a Bearer token', () => ({ 'x-api-key': account.key, authorization: 'Bearer x' })],
  ])('answers 401 to %s, before anything else', async (_what, headers) => {
    for (const path of ['/api/v1/agents?x=1', '/api/v1/agents/%zz', '/api/v1/nothing']) {
      const response = await fetch(api.url + path, { headers: headers() });
      expect(response.status).toBe(401);
      expect(await response.json()).toMatchObject({ code: 'authentication_failed', type: 'authentication_error' });
    }
  });

  it('refuses a key from the moment it is deleted', async () => {
    const other = await api.account();
    expect((await other.call('GET', '/api/v1/agents')).status).toBe(200);
    await api.pool.query('delete from api_keys where account_id = $1', [other.id]);
    expect((await other.call('GET', '/api/v1/agents')).status).toBe(401);
  });

  it('notes the use of a key at most once a minute', async () => {
    const other = await api.account();
    const used = async () =>
      (await api.pool.query('select last_used_at from api_keys where account_id = $1', [other.id])).rows[0]
        .last_used_at;
    expect(await used()).toBeNull();
    await other.call('GET', '/api/v1/agents');
    const first = await used();
    expect(first).toBeInstanceOf(Date);
    await other.call('GET', '/api/v1/agents');
    expect(await used()).toEqual(first);
    await api.pool.query("update api_keys set last_used_at = now() - interval '61 seconds' where account_id = $1", [
      other.id,
    ]);
    await other.call('GET', '/api/v1/agents');
    expect((await used()).getTime()).toBeGreaterThanOrEqual(first.getTime());
  });

  it('keeps a valid request id, replaces any other, and repeats it in errors', async () => {
    for (const id of ['a', 'A-1_b.c', 'x'.repeat(128)]) {
      const answer = await account.call('GET', '/api/v1/nothing', undefined, { 'x-request-id': id });
      expect([answer.headers.get('x-request-id'), answer.body.request_id]).toEqual([id, id]);
    }
    for (const id of ['', 'a b', 'x'.repeat(129), 'a,b']) {
      const answer = await account.call('GET', '/healthz', undefined, { 'x-request-id': id });
      expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  it('lets nothing under /api be kept, and says nothing about what it is made of', async () => {
    const { headers } = await account.call('GET', '/api/v1/agents');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('x-powered-by')).toBeNull();
  });

  it('answers with the error object when the HTTP itself is broken', async () => {
    const { port } = new URL(api.url);
    const answerTo = (text: string) =>
      new Promise<string>((resolve, reject) => {
        let answer = '';
        const socket = connect(Number(port), '127.0.0.1', () => socket.write(text));
        socket.on('data', (part) => {
          answer += part;
        });
        socket.on('end', () => resolve(answer));
        socket.on('error', reject);
      });
    const broken = await answerTo('nonsense\r\n\r\n');
    expect(broken).toMatch(/^HTTP\/1\.1 400 /);
    expect(JSON.parse(broken.split('\r\n\r\n')[1]!)).toMatchObject({ code: 'invalid_request' });
    expect(await answerTo(`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 431 /,
    );
  });

  it('stores a payment and answers pending while Temporal is down', async () => {
    const agent = await createAgent(account);
    const startedMs = performance.now();
    const { status, body } = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    expect([status, body.status, body.status_detail]).toEqual([200, 'pending', 'created']);
    expect(performance.now() - startedMs).toBeLessThan(20_000);
    expect((await account.call('GET', `/api/v1/transactions/${body.id}`)).status).toBe(200);
  });

  it('is alive, and says what it lacks to be ready', async () => {
    expect((await account.call('GET', '/healthz')).body).toEqual({ status: 'ok' });
    const { status, body } = await account.call('GET', '/readyz');
    expect(status).toBe(503);
    expect(body).toMatchObject({
      status: 'not_ready',
      checks: { postgres: { ok: true }, temporal: { ok: false }, signers: { ok: false } },
    });
  });
});
