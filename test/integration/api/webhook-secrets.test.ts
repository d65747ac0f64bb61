import { readFileSync } from 'node:fs';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashBody } from '../../../api/idempotency-hash.ts';
import { createSecretOpener } from '../../../shared/webhook-secrets.ts';
import { testWebhookKeys } from '../../support/webhook-keys.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { createTestWebhook, newSecret } from './webhook-calls.ts';

const nobody = '127.0.0.1:1';

describe('secrets of webhooks', () => {
  let api: TestApi;
  let account: TestAccount;
  const logged: string[] = [];

  beforeAll(async () => {
    const log = pino({ level: 'trace' }, { write: (line: string) => void logged.push(line) });
    api = await startTestApi({ temporalAddress: nobody, log });
    account = await api.account();
  });
  afterAll(() => api?.stop());

  /** Every row of every table, as text, as a dump would have it. */
  async function dump(): Promise<string> {
    const { ownerUrl } = api;
    const client = new pg.Client(ownerUrl);
    await client.connect();
    try {
      const { rows: tables } = await client.query<{ name: string }>(
        `select format('%I.%I', schemaname, tablename) as name from pg_tables
         where schemaname not in ('pg_catalog', 'information_schema')`,
      );
      const texts: string[] = [];
      for (const { name } of tables) {
        const { rows } = await client.query<{ text: string }>(`select t::text as text from ${name} t`);
        texts.push(name, ...rows.map(({ text }) => text));
      }
      return texts.join('\n');
    } finally {
      await client.end();
    }
  }

  /** A secret in every form in which it could be found. */
  function formsOf(secret: string): string[] {
    const rest = secret.replace(/^whsec_/, '');
    const encode = (bytes: Buffer) => [bytes.toString('hex'), bytes.toString('base64'), bytes.toString('base64url')];
    return [
      rest,
      ...encode(Buffer.from(rest, 'base64')),
      ...encode(Buffer.from(rest)),
      ...encode(Buffer.from(secret)),
    ].map((form) => form.replace(/=+$/, ''));
  }

  it('F9: are in no row of a dump of the database and in no line of the log, in no form, however they were sent', async () => {
    const secrets = [
      newSecret(),
      newSecret(),
      newSecret(),
      'whsec_tr0ub4dor and three of its friends',
      newSecret(),
      newSecret(),
    ];
    const [first, second, third, words, refused, kept] = secrets as [string, string, string, string, string, string];
    const { id } = await createTestWebhook(account, { secret: first });
    await createTestWebhook(account, { secret: kept });
    const rotate = (secret: string, key: string) =>
      account.call('POST', `/api/v1/webhooks/${id}/rotate-secret`, { secret }, { 'idempotency-key': key });
    for (const [secret, key] of [
      [second, 'one'],
      [second, 'one'],
      [words, 'two'],
      [third, 'two'],
    ] as const)
      await rotate(secret, key);
    await account.call('POST', `/api/v1/webhooks/${id}/test`);
    await account.call('PUT', `/api/v1/webhooks/${id}`, { secret: refused });
    await account.call('POST', '/api/v1/webhooks', { url: 'http://example.com', secret: refused });
    const text = (await dump()) + logged.join('');
    expect(text).toContain(id);
    expect(text).toContain('idempotency_keys');
    for (const form of secrets.flatMap(formsOf)) expect(text.includes(form)).toBe(false);
    // Nor can one that somebody has made up be found out by what is kept of requests that had a key.
    const { rows } = await api.pool.query('select body_hash from idempotency_keys');
    const hashes = rows.map((row) => row.body_hash.toString('hex'));
    expect(hashes).toHaveLength(2);
    for (const secret of secrets) expect(hashes).not.toContain(hashBody({ secret }).toString('hex'));
    // The same look finds what is there: the key id of the sealed ones, and their form.
    expect(text).toContain((await testWebhookKeys()).publicJwk.kid);
    expect(text.match(/eyJhbGciOiJFQ0RILUVTK0EyNTZLVyIs/g)?.length).toBeGreaterThanOrEqual(2);
  });

  it('F9: are sealed to a key that the api does not have', async () => {
    const secret = newSecret();
    const { id } = await createTestWebhook(account, { secret });
    const { rows } = await api.pool.query('select secret from webhooks where id = $1', [id]);
    const { publicJwk, jwks, env } = await testWebhookKeys();
    const own = JSON.parse(readFileSync(env.PURSER_WEBHOOK_PUBLIC_KEY_FILE, 'utf8'));
    expect(Object.keys(own).sort()).toEqual(['crv', 'kid', 'kty', 'x', 'y']);
    const given = { sealed: rows[0].secret, webhookId: id };
    await expect(createSecretOpener({ jwks: { keys: [publicJwk] } }).open(given)).rejects.toThrow(/does not open/);
    expect(await createSecretOpener({ jwks }).open(given)).toBe(secret);
  });

  it('F9: are gone from the database with their webhook', async () => {
    const { id } = await createTestWebhook(account);
    await account.call('POST', `/api/v1/webhooks/${id}/rotate-secret`, { secret: newSecret() });
    const { rows } = await api.pool.query('select secret, previous_secret from webhooks where id = $1', [id]);
    await account.call('DELETE', `/api/v1/webhooks/${id}`);
    const text = await dump();
    expect(text).not.toContain(rows[0].secret);
    expect(text).not.toContain(rows[0].previous_secret);
  });
});
