import { randomBytes } from 'node:crypto';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import pino from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createKeepMonths } from '../../activities/keep-months.ts';
import { createAccount } from '../../shared/db/accounts.ts';
import { insertAuthSession } from '../../shared/db/auth-sessions.ts';
import { insertExchangeCode } from '../../shared/db/exchange-codes.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { insertRefreshToken } from '../../shared/db/refresh-tokens.ts';
import { upsertUser } from '../../shared/db/users.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const dayTexts = (days: number) => `${days} days`;

let database: TestDatabase;
let pool: Pool;
let accountId: string;
let userId: string;
const logged: Record<string, unknown>[] = [];
const logger = pino({ level: 'info' }, { write: (line: string) => void logged.push(JSON.parse(line)) });

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
  accountId = await createAccount(pool, { name: 'test', plan: 'starter' });
  ({ id: userId } = await upsertUser(pool, { issuer: 'https://a.test', subject: 'a', email: null, name: null }));
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

/** One run of the daily maintenance. */
const maintain = () =>
  new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') }).run(
    createKeepMonths({ pool, logger, retention: { eventMonths: 13, auditMonths: 25 } }),
  );

/** A session that began so long ago, maybe revoked so long ago, with a refresh token for each number: days since it expired. */
async function session(o: { began: number; revoked?: number; tokens?: readonly number[] }): Promise<string> {
  const id = await insertAuthSession(pool, { accountId, userId });
  await pool.query(
    `update auth_sessions set created_at = now() - $2::interval, revoked_at = now() - $3::interval,
            revoked_reason = case when $3::interval is not null then 'signed_out' end
     where id = $1`,
    [id, dayTexts(o.began), o.revoked === undefined ? null : dayTexts(o.revoked)],
  );
  for (const expired of o.tokens ?? []) await token(id, expired);
  return id;
}

async function token(sessionId: string, expiredDaysAgo: number): Promise<void> {
  const hash = randomBytes(32);
  await insertRefreshToken(pool, { hash, sessionId, lifetimeSeconds: 0 });
  await pool.query('update refresh_tokens set expires_at = now() - $2::interval where hash = $1', [
    hash,
    dayTexts(expiredDaysAgo),
  ]);
}

async function code(expiredDaysAgo: number, sessionId: string | null = null): Promise<void> {
  const hash = randomBytes(32);
  await insertExchangeCode(pool, { hash, accountId, userId, lifetimeSeconds: 0 });
  await pool.query('update exchange_codes set expires_at = now() - $2::interval, session_id = $3 where hash = $1', [
    hash,
    dayTexts(expiredDaysAgo),
    sessionId,
  ]);
}

const idsOf = async () => (await pool.query('select id from auth_sessions order by id')).rows.map(({ id }) => id);
const countOf = async (table: string) =>
  (await pool.query(`select count(*)::integer as count from ${table}`)).rows[0].count as number;

describe('the daily maintenance', () => {
  it('forgets sign-ins that are over, and none that is of use', async () => {
    const kept = [
      await session({ began: 0 }),
      await session({ began: 0, tokens: [-30] }),
      await session({ began: 400, tokens: [-1] }),
      await session({ began: 400, tokens: [6, 5] }),
      await session({ began: 40, revoked: 29, tokens: [] }),
      await session({ began: 29, tokens: [] }),
    ];
    await session({ began: 400, tokens: [8, 7.1] });
    await session({ began: 31, tokens: [] });
    await session({ began: 400, revoked: 31, tokens: [-5] });
    await token(kept[1]!, 7.1);
    for (const days of [-0.001, 0.5, 0.99]) await code(days, kept[0]!);
    for (const days of [1.01, 300]) await code(days, kept[0]!);
    await code(1.01);
    await maintain();
    expect(await idsOf()).toEqual(kept.toSorted());
    expect([await countOf('refresh_tokens'), await countOf('exchange_codes')]).toEqual([4, 3]);
    expect(logged.at(-1)).toMatchObject({ codes: 3, refresh_tokens: 3, sessions: 3 });
    const lines = logged.length;
    await maintain();
    expect([await idsOf(), logged.length]).toEqual([kept.toSorted(), lines]);
  });

  it('forgets however many there are, and passes over what somebody is using', async () => {
    const used = await session({ began: 60, tokens: [] });
    await pool.query(
      `insert into refresh_tokens (hash, session_id, expires_at)
       select sha256(i::text::bytea), $1, now() - interval '8 days' from generate_series(1, 2500) i`,
      [used],
    );
    const before = await countOf('refresh_tokens');
    const client = await pool.connect();
    await client.query('begin');
    await client.query('select from auth_sessions where id = $1 for key share', [used]);
    await maintain();
    expect([await countOf('refresh_tokens'), (await idsOf()).includes(used)]).toEqual([before - 2500, true]);
    await client.query('rollback');
    client.release();
    await maintain();
    expect(await idsOf()).not.toContain(used);
  });
});
