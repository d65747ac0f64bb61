import { Client, Connection } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createStartMissing } from '../../activities/start-missing.ts';
import { insertApproval } from '../../shared/db/approvals.ts';
import { storeHead } from '../../shared/db/chain-heads.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { putHolds } from '../../shared/db/holds.ts';
import { claimKey } from '../../shared/db/idempotency-keys.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { reserve } from '../../shared/db/reservations.ts';
import { insertSlot, wishFor } from '../../shared/db/slots.ts';
import { getTransaction } from '../../shared/db/transactions.ts';
import type { EvmTransaction } from '../../shared/domain/receipt.ts';
import type { ReconcileResult } from '../../shared/domain/reconcile.ts';
import { newId } from '../../shared/ids.ts';
import { transactionStart } from '../../shared/transaction-start.ts';
import { eventually } from '../support/client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { signalsOf, startPuppetWorker } from '../support/puppet-worker.ts';
import { insertTestAgent, insertTestPayment, type TestAgent } from '../support/rows.ts';
import { type OwnTemporal, startOwnTemporal } from '../support/temporal.ts';

const chain = 'eip155:31337';
const quiet: ReconcileResult = {
  ...{ visited: 0, started: 0, reminded: 0, nudged: 0, failing: 0, unwatched: [], expiredKeys: 0 },
  repaired: { reservations: 0, holds: 0, approvals: 0 },
};

let temporal: OwnTemporal;
let puppets: Awaited<ReturnType<typeof startPuppetWorker>>;
let connection: Connection;
let client: Client;
let database: TestDatabase;
let pool: Pool;
let logged: { msg: string; transaction_id?: string; why?: string }[] = [];

beforeAll(async () => {
  temporal = await startOwnTemporal();
  connection = await Connection.connect({ address: temporal.address });
  client = new Client({ connection });
  puppets = await startPuppetWorker(temporal);
});
afterAll(async () => {
  await puppets?.stop();
  await connection?.close();
  await temporal?.stop();
});
/** Each test has a database of its own: a run looks at all of it. */
beforeEach(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
  logged = [];
});
afterEach(async () => {
  await pool.end();
  await database.drop();
});

/** One run of the schedule's activity, as one worker has it. */
function run(): Promise<ReconcileResult> {
  const logger = pino({ level: 'info' }, { write: (line: string) => void logged.push(JSON.parse(line)) });
  const environment = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
  return environment.run(createStartMissing({ pool, client, logger }));
}
const sum = (results: readonly ReconcileResult[], key: 'started' | 'nudged' | 'expiredKeys') =>
  results.reduce((total, result) => total + result[key], 0);

/** A payment that was stored a minute ago, and touched as long ago. */
async function payment(
  changes: { agent?: TestAgent; idleMinutes?: number; detail?: string; visitedMinutes?: number } = {},
): Promise<string> {
  const { agent = await insertTestAgent(pool), idleMinutes = 1, detail = 'policy_check', visitedMinutes } = changes;
  const id = await insertTestPayment(pool, agent);
  await pool.query(
    `update transactions set status_detail = $2, created_at = now() - interval '1 day',
            updated_at = now() - $3 * interval '1 minute', reconciled_at = now() - $4::float8 * interval '1 minute'
     where id = $1`,
    [id, detail, idleMinutes, visitedMinutes ?? null],
  );
  return id;
}
const row = async (id: string) => (await getTransaction(pool, { id }))!;
const startWorkflow = async (id: string) =>
  client.workflow.start('transaction', { ...transactionStart(await row(id)), workflowIdConflictPolicy: 'FAIL' });
const statusOf = async (id: string) => (await client.workflow.getHandle(id).describe()).status.name;
async function attempt(id: string, { age = '10 minutes', isFinal = false } = {}): Promise<void> {
  await pool.query(
    `insert into attempts (chain, hash, transaction_id, raw, created_at, final_at)
     values ($1, '0x' || $2::text, $2, '0x', now() - $3::interval, case when $4 then now() end)`,
    [chain, id, age, isFinal],
  );
}
async function seeHead(ago: string): Promise<void> {
  await storeHead(pool, { chain, number: 1, hash: '0x1' });
  await pool.query(`update chain_heads set seen_at = now() - $1::interval`, [ago]);
}

it('a wish that the workflow has not heard of is told again, for some time', async () => {
  const id = await payment({ detail: 'broadcast', visitedMinutes: 1 });
  await startWorkflow(id);
  const { wallet_id: walletId } = await row(id);
  const payload = { kind: 'evm-transaction' as const, transaction: {} as EvmTransaction };
  await insertSlot(pool, { walletId, chain, nonce: 0, transactionId: id, payload });
  await wishFor(pool, { transactionId: id, wanted: 'cancel', end: { code: 'cancelled', message: 'By hand.' } });
  expect(await run()).toEqual(quiet);
  const wishedAgo = (age: string) => pool.query('update slots set wanted_at = now() - $1::interval', [age]);
  await wishedAgo('10 seconds');
  expect(await run()).toEqual({ ...quiet, reminded: 1 });
  expect(await signalsOf(client, id)).toEqual(['replace']);
  await wishedAgo('3 minutes');
  expect(await run()).toEqual(quiet);
});

describe('a payment without a workflow that runs', () => {
  it('gets one: never started, ended by hand, and ended as it should while its row is still pending', async () => {
    const [never, terminated, completed, running] = [
      await payment(),
      await payment(),
      await payment(),
      await payment(),
    ] as const;
    puppets.behave(completed, 'complete');
    const handles = [await startWorkflow(terminated), await startWorkflow(completed), await startWorkflow(running)];
    await handles[0]!.terminate('by hand');
    await eventually(
      () => statusOf(completed),
      (status) => status === 'COMPLETED',
    );
    expect(await run()).toEqual({ ...quiet, visited: 4, started: 3 });
    for (const id of [never, terminated, completed, running]) expect(await statusOf(id)).toBe('RUNNING');
    // Everybody was visited; the one that was ended by hand a moment ago is looked at once more.
    const again = await run();
    expect(again).toEqual({ ...quiet, visited: again.visited });
    expect(again.visited).toBeLessThanOrEqual(1);
  });

  it('gets one soon after it was ended by hand, also when it was visited just before', async () => {
    const id = await payment();
    expect(await run()).toEqual({ ...quiet, visited: 1, started: 1 });
    await client.workflow.getHandle(id).terminate('by hand');
    // Visibility may take a moment to know.
    await eventually(run, ({ started }) => started === 1);
    expect(await statusOf(id)).toBe('RUNNING');
    expect(await run()).toMatchObject({ started: 0 });
  });

  it('is left alone while it is new, and once it has ended', async () => {
    const [fresh, over] = [await insertTestPayment(pool, await insertTestAgent(pool)), await payment()];
    await pool.query(
      `update transactions set status = 'failed', status_detail = 'failed', failure_code = 'dropped' where id = $1`,
      [over],
    );
    expect(await run()).toEqual(quiet);
    for (const id of [fresh, over]) await expect(statusOf(id)).rejects.toThrow(/not found/i);
  });

  it('gets exactly one when two workers look at once, and each of hundreds gets its own', {
    timeout: 60_000,
  }, async () => {
    const agent = await insertTestAgent(pool);
    const ids = await Promise.all(Array.from({ length: 250 }, () => payment({ agent })));
    const results = await Promise.all([run(), run()]);
    expect(sum(results, 'started')).toBe(ids.length);
    for (const id of ids) expect(await statusOf(id)).toBe('RUNNING');
    expect(await run()).toEqual(quiet);
  });

  it('is not passed over for minutes when the worker that looks dies', async () => {
    const id = await payment();
    const gone = await Connection.connect({ address: temporal.address });
    await gone.close();
    const environment = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
    const startMissing = createStartMissing({
      ...{ pool, client: new Client({ connection: gone }), logger: pino({ level: 'silent' }) },
    });
    await expect(environment.run(startMissing)).rejects.toThrow();
    expect((await row(id)).status).toBe('pending');
    expect(await run()).toEqual({ ...quiet, visited: 1, started: 1 });
  });
});

describe('a payment without progress', () => {
  it('is nudged by what it waits for, and not again before a quarter of an hour', async () => {
    const [waiting, sent, asked, moving] = [
      await payment({ idleMinutes: 3 }),
      await payment({ idleMinutes: 3, detail: 'confirming' }),
      await payment({ idleMinutes: 60, detail: 'awaiting_approval' }),
      await payment({ idleMinutes: 1 }),
    ] as const;
    await pool.query('update transactions set waiting_since = now() where id = $1', [waiting]);
    await attempt(sent, { isFinal: true });
    for (const id of [waiting, sent, asked, moving]) await startWorkflow(id);
    expect(await run()).toEqual({ ...quiet, visited: 4, nudged: 2 });
    for (const id of [waiting, sent]) expect(await signalsOf(client, id)).toEqual(['replace']);
    for (const id of [asked, moving]) expect(await signalsOf(client, id)).toEqual([]);
    const ago = (minutes: number) =>
      pool.query(
        `update transactions set reconciled_at = now() - interval '6 minutes',
                updated_at = now() - $2 * interval '1 minute' where id = $1`,
        [waiting, minutes],
      );
    await ago(9);
    expect(await run()).toEqual({ ...quiet, visited: 1 });
    await ago(16);
    expect(await run()).toEqual({ ...quiet, visited: 1, nudged: 1 });
  });

  it('is reported with its reason when its workflow fails again and again', { timeout: 120_000 }, async () => {
    const [broken, refused] = [
      await payment({ idleMinutes: 3 }),
      await payment({ idleMinutes: 3, detail: 'signing' }),
    ] as const;
    puppets.behave(broken, 'fail');
    puppets.behave(refused, 'fail-step');
    for (const id of [broken, refused]) await startWorkflow(id);
    await eventually(
      async () => {
        const { raw } = await client.workflow.getHandle(refused).describe();
        const other = await client.workflow.getHandle(broken).describe();
        return [raw.pendingActivities?.[0]?.attempt ?? 0, other.raw.pendingWorkflowTask?.attempt ?? 0].map(Number);
      },
      (attempts) => attempts.every((count) => count >= 3),
    );
    expect(await run()).toEqual({ ...quiet, visited: 2, nudged: 2, failing: 2 });
    const reasons = new Map(logged.flatMap(({ transaction_id, why }) => (why ? [[transaction_id, why]] : [])));
    expect(reasons.get(broken)).toMatch(/^its workflow task fails, attempt \d+$/);
    expect(reasons.get(refused)).toMatch(/^step broadcast fails, attempt \d+: no node answers$/);
    puppets.behave(broken, 'rest');
  });
});

describe('what an ended payment still takes', () => {
  /** A payment that has ended in the row alone, as no code of ours does it. */
  async function ended(status: 'confirmed' | 'failed', { block = null as number | null } = {}) {
    const agent = await insertTestAgent(pool);
    const id = await payment({ agent, detail: 'signing' });
    await reserve(pool, { paymentId: id, ...agent, token: 'USDC', atoms: 10n ** 36n, now: new Date() });
    await putHolds(pool, { ownerId: id, ...agent, chain, holds: [{ asset: 'native', amountMinor: 7n }] });
    await insertApproval(pool, {
      ...{ accountId: agent.accountId, agentId: agent.agentId, paymentId: id, now: await databaseClock(pool) },
      demand: {
        ...{ policy_id: newId('pol'), threshold: '0', required_approvals: 1, approvers: ['a@example.com'] },
        timeout_seconds: 600,
      },
    });
    await pool.query(
      `update transactions set status = $2, status_detail = $2, block_number = $3,
              failure_code = case when $2 = 'failed' then 'dropped' end where id = $1`,
      [id, status, block],
    );
    return id;
  }

  it('is given back, counted once by two workers, and nothing disagrees afterwards', async () => {
    const confirmed = await ended('confirmed', { block: 9 });
    const reverted = await ended('failed', { block: 9 });
    const failed = await ended('failed');
    const others = await Promise.all(Array.from({ length: 20 }, () => ended('failed')));
    const open = await payment();
    await putHolds(pool, { ownerId: open, ...(await insertTestAgent(pool)), chain, holds: [] });
    expect(await findMismatches(pool)).not.toEqual([]);
    const results = await Promise.all([run(), run()]);
    const count = 3 + others.length;
    for (const key of ['reservations', 'holds', 'approvals'] as const)
      expect(results.reduce((total, { repaired }) => total + repaired[key], 0)).toBe(count);
    expect(await findMismatches(pool)).toEqual([]);
    expect((await run()).repaired).toEqual(quiet.repaired);
    const { rows: states } = await pool.query('select payment_id as id, state from reservations');
    const stateOf = new Map(states.map(({ id, state }) => [id, state]));
    expect([confirmed, reverted, failed].map((id) => stateOf.get(id))).toEqual(['settled', 'released', 'released']);
    // Balances that were read before the block do not show the money as gone.
    const { rows: holds } = await pool.query('select owner_id, closed_block from holds order by owner_id');
    expect(holds).toEqual([confirmed, reverted].toSorted().map((owner_id) => ({ owner_id, closed_block: '9' })));
    const { rows: questions } = await pool.query('select distinct status from approvals');
    expect(questions).toEqual([{ status: 'cancelled' }]);
    expect(logged.filter(({ msg }) => msg.includes('still took'))).toHaveLength(count);
  });

  it('is given back as well where money is held for a payment that does not exist', async () => {
    const agent = await insertTestAgent(pool);
    await putHolds(pool, { ownerId: 'tx_nobody', ...agent, chain, holds: [{ asset: 'native', amountMinor: 7n }] });
    expect(await findMismatches(pool)).toHaveLength(1);
    expect(await run()).toEqual({ ...quiet, repaired: { reservations: 0, holds: 1, approvals: 0 } });
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('is left as it is, and said, where it cannot be given back; the others are', async () => {
    const [stuck, other] = [await ended('failed'), await ended('failed')] as const;
    // A sum that has been tampered with: it cannot become less than nothing.
    await pool.query(
      `update usage_open set atoms = 0, count = 0 where agent_id = (select agent_id from transactions where id = $1)`,
      [stuck],
    );
    expect((await run()).repaired).toEqual({ reservations: 1, holds: 1, approvals: 1 });
    const { rows } = await pool.query(`select payment_id as id from reservations where state = 'reserved'`);
    expect(rows).toEqual([{ id: stuck }]);
    expect((await row(other)).status).toBe('failed');
    expect(logged.filter(({ msg }) => msg.includes('cannot be given back'))).toHaveLength(1);
  });
});

describe('a hash that was sent on a chain that nobody watches', () => {
  it('is reported with its chain, and its payment is nudged every minute', async () => {
    const id = await payment({ idleMinutes: 1, detail: 'broadcast' });
    await startWorkflow(id);
    await attempt(id);
    expect((await run()).unwatched).toEqual([{ chain, payments: 1, seen_at: null }]);
    await pool.query(`update transactions set updated_at = now() - interval '4 minutes',
                      reconciled_at = now() - interval '61 seconds'`);
    await seeHead('2 minutes');
    const { rows } = await pool.query('select seen_at from chain_heads');
    const seen_at = (rows[0].seen_at as Date).toISOString();
    expect(await run()).toEqual({ ...quiet, visited: 1, nudged: 1, unwatched: [{ chain, payments: 1, seen_at }] });
    expect(await signalsOf(client, id)).toEqual(['replace']);
    expect(await run()).toMatchObject({ visited: 0, unwatched: [{ chain, payments: 1 }] });
    await seeHead('1 second');
    expect(await run()).toEqual(quiet);
  });

  it('is no cause for alarm while it is new, for a watcher sleeps while nothing waits', async () => {
    await seeHead('1 day');
    const id = await payment({ detail: 'broadcast', visitedMinutes: 1 });
    await attempt(id, { age: '10 seconds' });
    expect((await run()).unwatched).toEqual([]);
  });
});

it('keys whose time is over are deleted, in batches, by two workers at once', async () => {
  const { accountId } = await insertTestAgent(pool);
  const key = (index: number, lifetimeMs: number | null) =>
    claimKey(pool, {
      ...{ accountId, method: 'POST', path: '/api/v1/agents', key: `key ${index}`, bodyHash: Buffer.from('0') },
      ...{ resourceId: null, leaseMs: 0, lifetimeMs },
    });
  await Promise.all(Array.from({ length: 700 }, (_, index) => key(index, -1_000)));
  await Promise.all([key(1_000, null), key(1_001, 60_000)]);
  expect(sum(await Promise.all([run(), run()]), 'expiredKeys')).toBe(700);
  const { rows } = await pool.query('select key from idempotency_keys order by key');
  expect(rows).toEqual([{ key: 'key 1000' }, { key: 'key 1001' }]);
});
