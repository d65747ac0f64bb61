import { Client, Connection } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { createStartMissing } from '../../activities/start-missing.ts';
import { storeHead } from '../../shared/db/chain-heads.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import type { X402PaymentRow } from '../../shared/db/x402-payments.ts';
import { getSession, type SessionRow } from '../../shared/db/x402-sessions.ts';
import type { ReconcileResult } from '../../shared/domain/reconcile.ts';
import { releaseSession } from '../../shared/x402-budget.ts';
import { x402PaymentStart, x402SessionStart } from '../../shared/x402-start.ts';
import { eventually } from '../support/client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { signalsOf, startPuppetWorker } from '../support/puppet-worker.ts';
import { insertTestAgent } from '../support/rows.ts';
import { type OwnTemporal, startOwnTemporal } from '../support/temporal.ts';
import { insertTestSession, insertTestX402 } from '../support/x402-rows.ts';

const chain = 'eip155:31337';
const from = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
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
  await storeHead(pool, { chain, number: 1, hash: '0x1' });
});
afterEach(async () => {
  await pool.end();
  await database.drop();
});

/** One run of the schedule's activity, as one worker has it. */
function run(): Promise<ReconcileResult> {
  const environment = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
  return environment.run(createStartMissing({ pool, client, logger: pino({ level: 'silent' }) }));
}
const statusOf = async (id: string) => (await client.workflow.getHandle(id).describe()).status.name;
const seconds = (ago: number) => Math.floor(Date.now() / 1000) - ago;
/** Both tables as if everything in them was stored long ago. */
async function age(minutes = 1): Promise<void> {
  for (const table of ['x402_payments', 'x402_sessions'])
    await pool.query(`update ${table} set created_at = now() - $1 * interval '1 minute'`, [minutes]);
  await pool.query(`update x402_payments set updated_at = created_at`);
}
async function session(): Promise<SessionRow> {
  return insertTestSession(pool, await insertTestAgent(pool));
}
/** A payment that is `created`, that may have been signed, or whose header was handed out. */
function payment(
  of: SessionRow,
  as: 'created' | 'signing' | 'issued',
  validBefore = seconds(-60),
): Promise<X402PaymentRow> {
  const stamp = { validAfter: validBefore - 900, validBefore };
  const isIssued = as === 'issued';
  return insertTestX402(pool, { session: of, from, ...(as === 'created' ? {} : { stamp, isIssued }) });
}

it('every open payment and session without a workflow that runs gets one, at once by two workers', async () => {
  const [open, other] = [await session(), await session()];
  const payments = await Promise.all((['created', 'signing', 'issued'] as const).map((as) => payment(open, as)));
  const running = await client.workflow.start('x402Payment', x402PaymentStart(payments[0]!));
  const gone = await client.workflow.start('x402Session', x402SessionStart(other));
  await gone.terminate('by hand');
  await age();
  const results = await Promise.all([run(), run()]);
  expect(results.reduce((sum, { started }) => sum + started, 0)).toBe(4);
  for (const { id } of [open, other, ...payments]) expect(await statusOf(id)).toBe('RUNNING');
  expect((await running.describe()).runId).toBe(running.firstExecutionRunId);
  expect(await run()).toMatchObject({ started: 0, nudged: 0 });
});

it('one that was ended by hand a moment after its visit gets another one soon', async () => {
  const open = await session();
  const issued = await payment(open, 'issued');
  await age();
  expect(await run()).toMatchObject({ visited: 2, started: 2 });
  for (const id of [open.id, issued.id]) await client.workflow.getHandle(id).terminate('by hand');
  let started = 0;
  await eventually(
    async () => {
      started += (await run()).started;
      return started;
    },
    (seen) => seen === 2,
  );
});

it('new ones, settled ones and ended sessions are left alone', async () => {
  const [open, ended] = [await session(), await session()];
  const [settled, expired, failed] = await Promise.all(
    (['issued', 'issued', 'created'] as const).map((as) => payment(open, as)),
  );
  await pool.query(`update x402_payments set settlement = 'settled' where id = $1`, [settled!.id]);
  await pool.query(`update x402_payments set settlement = 'expired' where id = $1`, [expired!.id]);
  await pool.query(
    `update x402_payments set status = 'failed', status_detail = 'failed', failure_code = 'agent_inactive' where id = $1`,
    [failed!.id],
  );
  await releaseSession(pool, { session: ended, by: 'deletion' });
  await age();
  await pool.query('update x402_sessions set created_at = now() where id = $1', [open.id]);
  const { repaired, ...visits } = await run();
  expect(visits).toMatchObject({ visited: 0, started: 0 });
  expect(repaired.reservations).toBe(3);
});

it('those that should have ended are told to look', async () => {
  const [late, open] = [await session(), await session()];
  const [overdue, waiting, idle, asked] = [
    await payment(open, 'issued', seconds(1_000)),
    await payment(open, 'issued'),
    await payment(open, 'created'),
    await payment(open, 'created'),
  ] as const;
  await pool.query(`update x402_payments set status_detail = 'awaiting_approval' where id = $1`, [asked.id]);
  await pool.query(`update x402_sessions set expires_at = now() - interval '1 minute' where id = $1`, [late.id]);
  for (const each of [late, open]) await client.workflow.start('x402Session', x402SessionStart(each));
  for (const each of [overdue, waiting, idle, asked])
    await client.workflow.start('x402Payment', x402PaymentStart(each));
  await age(20);
  expect(await run()).toEqual({ ...quiet, visited: 6, nudged: 3 });
  expect(await signalsOf(client, late.id)).toEqual(['sessionEnded']);
  for (const { id } of [overdue, idle]) expect(await signalsOf(client, id)).toEqual(['replace']);
  for (const { id } of [open, waiting, asked]) expect(await signalsOf(client, id)).toEqual([]);
  // Each was visited, and not again before some minutes.
  expect(await run()).toEqual(quiet);
});

it('sessions are visited seldom while their time is not over, and payments often', async () => {
  const [open, late] = [await session(), await session()];
  await payment(open, 'issued');
  await age();
  await pool.query(`update x402_sessions set expires_at = now() - interval '1 second' where id = $1`, [late.id]);
  expect(await run()).toMatchObject({ visited: 3, started: 3 });
  const visitedAgo = async (ago: string) => {
    for (const table of ['x402_payments', 'x402_sessions'])
      await pool.query(`update ${table} set reconciled_at = now() - $1::interval`, [ago]);
    return (await run()).visited;
  };
  expect(await visitedAgo('4 minutes')).toBe(0);
  expect(await visitedAgo('6 minutes')).toBe(2);
  expect(await visitedAgo('61 minutes')).toBe(3);
});

it('a chain is missed by its watcher while authorisations are open', async () => {
  const open = await session();
  await payment(open, 'issued');
  await age(2);
  await pool.query(`update chain_heads set seen_at = now() - interval '2 minutes'`);
  expect((await run()).unwatched).toMatchObject([{ chain, payments: 1 }]);
  await storeHead(pool, { chain, number: 2, hash: '0x2' });
  expect((await run()).unwatched).toEqual([]);
});

it('what ended payments and sessions still take is given back, to budgets as well, once', async () => {
  const [open, ended] = [await session(), await session()];
  const [failed, paid, kept] = [
    await payment(open, 'created'),
    await payment(open, 'issued'),
    await payment(open, 'issued'),
  ] as const;
  // As no code of ours does it: in the row alone.
  await pool.query(
    `update x402_payments set status = 'failed', status_detail = 'failed', failure_code = 'agent_inactive' where id = $1`,
    [failed.id],
  );
  await pool.query(`update x402_payments set settlement = 'settled', block_number = 9 where id = $1`, [paid.id]);
  await pool.query('update x402_sessions set released_at = now() where id = $1', [ended.id]);
  expect(await findMismatches(pool)).not.toEqual([]);
  const results = await Promise.all([run(), run()]);
  const sum = (key: 'reservations' | 'holds') => results.reduce((total, { repaired }) => total + repaired[key], 0);
  expect([sum('reservations'), sum('holds')]).toEqual([2, 3]);
  expect(await findMismatches(pool)).toEqual([]);
  const taken = [paid, kept].reduce((total, each) => total + BigInt(each.amount_minor) + BigInt(each.fee_minor), 0n);
  expect((await getSession(pool, { id: open.id }))!.spent_minor).toBe(taken.toString());
  const { rows: states } = await pool.query('select payment_id as id, state from reservations');
  const stateOf = new Map(states.map(({ id, state }) => [id, state]));
  expect([failed, paid, kept].map(({ id }) => stateOf.get(id))).toEqual(['released', 'settled', 'reserved']);
});
