import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import type { JWK } from 'jose';
import { pino } from 'pino';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createResealSecrets, type ResealResult } from '../../../activities/reseal-secrets.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { getWebhook, type WebhookRow } from '../../../shared/db/webhooks.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { insertTestWebhook, newSecret, newSecretKey, secretBox } from '../../support/webhook-rows.ts';

const url = 'https://hooks.example.com/';
let database: TestDatabase;
let pool: Pool;
let old: JWK;
let current: JWK;

beforeAll(async () => {
  [old, current] = [await newSecretKey(), await newSecretKey()];
});
beforeEach(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
});
afterEach(async () => {
  await pool.end();
  await database.drop();
});

function reseal(...keys: [JWK, ...JWK[]]): Promise<ResealResult> {
  const environment = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
  const logger = pino({ level: 'silent' });
  return environment.run(createResealSecrets({ pool, logger, ...secretBox(...keys) }));
}
const now = async (webhook: WebhookRow) => (await getWebhook(pool, { id: webhook.id }))!;
const opened = async (webhook: WebhookRow, sealed: string | null) =>
  secretBox(current).opener.open({ sealed: sealed!, webhookId: webhook.id });
async function rotated(webhook: WebhookRow, key: JWK): Promise<string> {
  const secret = newSecret();
  const sealed = await secretBox(key).seal({ secret, webhookId: webhook.id });
  await pool.query(
    `update webhooks set previous_secret = secret, previous_key_id = secret_key_id, previous_until = now() + interval '1 day',
            secret = $2, secret_key_id = $3 where id = $1`,
    [webhook.id, sealed.secret, sealed.keyId],
  );
  return secret;
}

describe('secrets that an older key has sealed', () => {
  it('are sealed to the current one, both of a webhook, so that the old key can be put away', async () => {
    const [one, two, three] = await Promise.all(
      [old, old, current].map((key) => insertTestWebhook(pool, { url, key })),
    );
    const fresh = await rotated(two!, current);
    expect(await reseal(current, old)).toEqual({ resealed: 2, unopened: 0 });
    const rows = await Promise.all([one!, two!, three!].map(now));
    for (const row of rows) expect(row.secret_key_id).toBe(current.kid);
    expect(rows[1]!.previous_key_id).toBe(current.kid);
    expect(await opened(one!, rows[0]!.secret)).toBe(one!.plainSecret);
    expect(await opened(two!, rows[1]!.secret)).toBe(fresh);
    expect(await opened(two!, rows[1]!.previous_secret)).toBe(two!.plainSecret);
    expect(rows[2]).toEqual(await now(three!));
    expect(await reseal(current, old)).toEqual({ resealed: 0, unopened: 0 });
  });

  it('are found also beyond the first hundred, and by two workers at once', async () => {
    const made = [];
    for (let index = 0; index < 130; index += 1) made.push(await insertTestWebhook(pool, { url, key: old }));
    const results = await Promise.all([reseal(current, old), reseal(current, old)]);
    expect(results.reduce((sum, { resealed }) => sum + resealed, 0)).toBe(130);
    for (const each of made.slice(-3)) expect(await opened(each, (await now(each)).secret)).toBe(each.plainSecret);
  });

  it('are left where no key opens them, and those of deleted webhooks are not looked for', async () => {
    const lost = await insertTestWebhook(pool, { url, key: await newSecretKey() });
    const gone = await insertTestWebhook(pool, { url, key: old });
    const fine = await insertTestWebhook(pool, { url, key: old });
    await pool.query(
      'update webhooks set deleted_at = now(), secret = null, secret_key_id = null, secret_format = null where id = $1',
      [gone.id],
    );
    expect(await reseal(current, old)).toEqual({ resealed: 1, unopened: 1 });
    expect(await now(lost)).toMatchObject({ secret: lost.secret });
    expect((await now(fine)).secret_key_id).toBe(current.kid);
    expect((await now(gone)).secret).toBeNull();
  });
});
