import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeApiKey } from '../../../shared/api-key.ts';
import { createLogger } from '../../../shared/log.ts';
import { noteSecret, secretsIn } from '../../support/secrets.ts';
import { createAgent, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';

/** Every secret that a client may hold, put where it does not belong. */
describe('secrets that are sent where they do not belong', () => {
  const lines: string[] = [];
  let api: TestApi;
  let account: TestAccount;
  let person: TestPerson;
  let secrets: Record<string, string>;
  beforeAll(async () => {
    const log = createLogger({ process: 'api', level: 'trace', write: (line) => lines.push(line) });
    api = await startTestApi({ temporalAddress: '127.0.0.1:1', log });
    account = await api.account();
    person = await account.person('ann@example.com');
    secrets = {
      'an API key': account.key,
      'an API key of nobody': makeApiKey({ environment: 'sandbox' }).key,
      'an API key of production': makeApiKey({ environment: 'production' }).key,
      'an access token': person.token,
      'a refresh token': `purser_refresh_${randomBytes(32).toString('base64url')}`,
      'an exchange code': `purser_code_${randomBytes(32).toString('base64url')}`,
      'the secret of a webhook': `whsec_${randomBytes(32).toString('base64')}`,
      'the end of a link': randomBytes(32).toString('base64url'),
    };
    for (const [what, value] of Object.entries(secrets)) noteSecret(what, value);
  });
  afterAll(() => api?.stop());

  const ask = (path: string, init: RequestInit = {}) =>
    fetch(api.url + path, { redirect: 'manual', ...init, headers: { 'x-api-key': account.key, ...init.headers } }).then(
      async (answer) => ({ status: answer.status, headers: answer.headers, body: await answer.text() }),
    );
  /** Bytes as they are, for what no client would send. */
  const write = async (bytes: string) => {
    const socket = connect(Number(new URL(api.url).port), '127.0.0.1');
    socket.end(bytes);
    await text(socket).catch(() => '');
  };

  it('are in no line of the log, and in no entry of the audit log', async () => {
    const agent = await createAgent(account);
    for (const secret of Object.values(secrets)) {
      const escaped = encodeURIComponent(secret);
      const json = { 'content-type': 'application/json' };
      const answers = [
        await ask(`/api/v1/agents?api_key=${escaped}`),
        await ask(`/api/v1/agents?agent_id=${escaped}&x=${escaped}`),
        await ask(`/api/v1/agents/${escaped}`),
        await ask(`/api/v1/agents/${escaped}/balances`),
        await ask(`/${escaped}`),
        await ask(`/approve/${escaped}`),
        await ask(`/approve/${escaped}`, { method: 'POST', body: `decision=${escaped}&note=${escaped}` }),
        await ask(`/auth/oidc/callback?code=${escaped}&state=${escaped}&error=${escaped}`),
        await ask(`/auth/oidc/redirect?account=${escaped}`),
        await ask('/api/v1/agents', { headers: { 'user-agent': `curl ${secret}`, 'x-request-id': secret } }),
        await ask('/api/v1/agents', { headers: { 'x-api-key': secret, 'user-agent': secret } }),
        await ask('/api/v1/agents', { headers: { authorization: secret } }),
        await ask('/api/v1/agents', { headers: { authorization: `Bearer ${secret}`, cookie: `a=${secret}` } }),
        await ask('/api/v1/agents', {
          headers: { 'x-forwarded-for': secret, 'idempotency-key': secret, referer: secret },
        }),
        await ask('/api/v1/auth/exchange', {
          method: 'POST',
          headers: json,
          body: JSON.stringify({ exchange_code: secret, code: secret }),
        }),
        await ask('/api/v1/auth/exchange', {
          method: 'POST',
          headers: json,
          body: JSON.stringify({ exchange_code: secret }),
        }),
        await ask('/api/v1/auth/refresh', {
          method: 'POST',
          headers: json,
          body: JSON.stringify({ refresh_token: secret }),
        }),
        await ask('/api/v1/auth/refresh', { method: 'POST', headers: json, body: `{"refresh_token":"${secret}"` }),
        await ask('/api/v1/agents', { method: 'POST', headers: json, body: JSON.stringify({ [secret]: secret }) }),
        await ask('/api/v1/agents', { method: 'POST', headers: json, body: `${secret}` }),
        await ask('/api/v1/transactions', {
          method: 'POST',
          headers: json,
          body: JSON.stringify({ agent_id: secret, amount: secret, token: secret, to_address: secret, chain: secret }),
        }),
        await ask('/api/v1/webhooks', {
          method: 'POST',
          headers: json,
          body: JSON.stringify({ url: `https://a:${secret}@h`, secret }),
        }),
        await ask('/api/v1/x402/check', {
          method: 'POST',
          headers: json,
          body: JSON.stringify({ url: `http://127.0.0.1:1/${escaped}` }),
        }),
        await ask(`/api/v1/agents/${agent.id}`, {
          method: 'PUT',
          headers: json,
          body: JSON.stringify({ [secret]: 1 }),
        }),
      ];
      // Audited: who made it, with what.
      const made = { agent_name: `agent ${randomBytes(8).toString('hex')}`, chain: 'eip155:31337' };
      const by = { ...json, 'user-agent': `curl ${secret}` };
      const created = await ask('/api/v1/agents', { method: 'POST', headers: by, body: JSON.stringify(made) });
      expect(created.status).toBe(200);
      for (const { status } of answers) expect(status).not.toBe(500);
      await write(`${secret}\r\n\r\n`);
      await write(`GET /${secret} HTTP/1.1\r\nHost: x\r\n${secret}: ${secret}\r\n : x\r\n\r\n`);
    }
    expect(lines.length).toBeGreaterThan(150);
    const found = lines.flatMap((line) => secretsIn(line).map((what) => `${what}: ${JSON.parse(line).msg}`));
    expect([...new Set(found)]).toEqual([]);

    const { rows } = await api.pool.query<{ entry: string }>(
      'select row_to_json(audit_inbox)::text as entry from audit_inbox',
    );
    expect(rows.length).toBeGreaterThan(5);
    expect(rows.flatMap(({ entry }) => secretsIn(entry))).toEqual([]);
  });

  it('are not repeated to whoever asks next, nor are they where a request began', async () => {
    const { headers, body } = await ask('/api/v1/nothing', { headers: { 'x-request-id': account.key } });
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    expect(secretsIn(body)).toEqual([]);
  });

  it('would be found', () => {
    expect(secretsIn(`a ${account.key} b`)).toEqual(['an API key']);
    expect(secretsIn(encodeURIComponent(secrets['the secret of a webhook']!))).toEqual(['the secret of a webhook']);
    expect(secretsIn(Buffer.from(account.key).toString('base64'))).toEqual(['an API key']);
  });
});
