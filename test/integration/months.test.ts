import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import pg from 'pg';
import pino from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createKeepMonths, makeMonths } from '../../activities/keep-months.ts';
import { createAuditSealer } from '../../activities/seal-audit.ts';
import { verifyAudit } from '../../api/operations/verify-audit.ts';
import { foldListCounts, readListCount } from '../../shared/db/list-counts.ts';
import {
  dropOldestPartition,
  findMisplacedRows,
  isBusy,
  makeNextPartition,
  neededBecause,
} from '../../shared/db/partitions.ts';
import { createPool, inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import type { MonthsResult } from '../../shared/domain/months.ts';
import { newId } from '../../shared/ids.ts';
import { bestOf } from '../support/best-of.ts';
import { eventually } from '../support/client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { findMiscounts } from '../support/list-counts.ts';
import { insertEventAt, makePartition, monthStart, partitionName } from '../support/months.ts';
import { insertTestAgent } from '../support/rows.ts';

const tables = ['events', 'webhook_deliveries', 'webhook_attempts', 'audit_logs'] as const;

let database: TestDatabase;
let pool: Pool;
let owner: Pool;
let accountId: string;
let logged: { msg: string; partition?: string }[];

beforeEach(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
  owner = createPool({ url: database.ownerUrl, application: 'test' });
  ({ accountId } = await insertTestAgent(pool));
  logged = [];
});
afterEach(async () => {
  await pool.end();
  await owner.end();
  await database.drop();
});

const logger = pino({ level: 'info' }, { write: (line: string) => void logged.push(JSON.parse(line)) });
const keep = (retention = { eventMonths: 13, auditMonths: 25 }): Promise<MonthsResult> =>
  new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') }).run(
    createKeepMonths({ pool, logger, retention }),
  );
const make = () => makeMonths({ pool, logger });
const countEvents = () => readListCount(pool, { list: 'events', owner: accountId });
async function partitions(table: string): Promise<string[]> {
  const { rows } = await owner.query<{ name: string }>(
    'select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass order by 1',
    [table],
  );
  return rows.map(({ name }) => name);
}
const forget = async (offsets: readonly number[], of: readonly (typeof tables)[number][] = tables) => {
  for (const table of of) for (const offset of offsets) await owner.query(`drop table ${partitionName(table, offset)}`);
};
const insertDelivery = async (db: Queryable, o: { eventId: string; status: string; at: Date }) => {
  await db.query(
    `insert into webhook_deliveries (id, account_id, webhook_id, event_id, event_type, status, next_attempt_at, created_at)
     values ($1, $2, 'whk_1', $3, 'payment.pending', $4, case when $4 = 'pending' then now() end, $5)`,
    [newId('dlv'), accountId, o.eventId, o.status, o.at],
  );
};

describe('months of what grows for ever', () => {
  it('are ready for this one and the next three', async () => {
    for (const table of tables)
      expect(await partitions(table)).toEqual([
        ...[0, 1, 2, 3].map((offset) => partitionName(table, offset)),
        `${table}_other`,
      ]);
    expect(await keep()).toEqual({ made: [], dropped: [], staying: [], misplaced: [] });
  });

  it('are made where they are missing, once, and it is told', async () => {
    await forget([2, 3]);
    await forget([0], ['audit_logs']);
    const [first, second] = await Promise.all([make(), make()]);
    const missing = [
      partitionName('audit_logs', 0),
      ...[2, 3].flatMap((offset) => tables.map((table) => partitionName(table, offset))),
    ];
    expect([...first, ...second].toSorted()).toEqual(missing.toSorted());
    expect(logged.map(({ partition }) => partition).toSorted()).toEqual(missing.toSorted());
    expect((await keep()).made).toEqual([]);
  });

  it.each(['UTC', 'Asia/Kolkata', 'America/Los_Angeles'])(
    'begin and end in UTC, also for sessions in %s',
    async (zone) => {
      const client = new pg.Client({ connectionString: database.url });
      await client.connect();
      try {
        await client.query(`set time zone '${zone}'`);
        await forget([1, 2, 3], ['events']);
        while (await makeNextPartition(client, { monthsAhead: 3 })) {}
        for (const offset of [1, 2, 3]) {
          const start = monthStart(offset);
          const at = (ms: number) => insertEventAt(client, { accountId, at: new Date(start.getTime() + ms) });
          expect((await at(-1)).partition).toBe(partitionName('events', offset - 1));
          expect((await at(0)).partition).toBe(partitionName('events', offset));
        }
        const { rows } = await client.query(
          `select month::text, sum(delta)::int as n from list_count_deltas where key = $1 group by month order by month`,
          [accountId],
        );
        const months = [0, 1, 2, 3].map((offset) => monthStart(offset).toISOString().slice(0, 10));
        expect(rows).toEqual(months.map((month, i) => ({ month, n: i === 0 || i === 3 ? 1 : 2 })));
      } finally {
        await client.end();
      }
    },
  );

  it('that nobody has made fail nothing: their rows lie with the others, are counted, and are reported', async () => {
    await forget([0, 1], ['events']);
    expect((await insertEventAt(pool, { accountId, at: new Date() })).partition).toBe('events_other');
    expect(await countEvents()).toBe(1);
    const result = await keep();
    const month = monthStart(0).toISOString().slice(0, 7);
    expect(result).toEqual({
      made: [partitionName('events', 1)],
      dropped: [],
      staying: [],
      misplaced: [{ table: 'events', month, count: 1 }],
    });
    expect(logged.at(-1)!.msg).toBe('rows lie outside the months of their tables');
    expect((await insertEventAt(pool, { accountId, at: monthStart(1) })).partition).toBe(partitionName('events', 1));
    expect(await findMiscounts(pool)).toEqual([]);
  });
});

describe('the audit log by month', () => {
  /** An entry of that month, that nobody has given its place yet. */
  const insertEntry = (offset: number) =>
    pool.query(
      `insert into audit_inbox (id, account_id, action, actor_type, resource_type, result, metadata, created_at)
       values ($1, $2, 'policy.deleted', 'user', 'policy', 'success', '{}', $3)`,
      [newId('aud'), accountId, monthStart(offset)],
    );
  const seal = async () => {
    const sealer = createAuditSealer({ pool, logger });
    sealer.start();
    await eventually(
      async () => (await pool.query('select from audit_inbox')).rowCount,
      (left) => left === 0,
    );
    await sealer.stop();
  };
  const verify = () => verifyAudit(pool, { accountId, fromSeq: undefined, limit: 1_000, noted: undefined });

  it('has room for entries that have waited for their place since before its oldest month', async () => {
    for (const offset of [-14, -2, 0]) await insertEntry(offset);
    const { made } = await keep();
    expect(made).toEqual(Array.from({ length: 14 }, (_, index) => partitionName('audit_logs', index - 14)));
    await seal();
    expect(await findMisplacedRows(pool)).toEqual([]);
    expect((await keep()).made).toEqual([]);
  });

  it('has chains that still verify when old months of them are gone', async () => {
    for (const offset of [-15, -15, -14, -13, -12, 0, 0]) await insertEntry(offset);
    await keep();
    await seal();
    const whole = await verify();
    expect(whole).toMatchObject({ valid: true, complete: true, checked: 7, checkpoint: null });
    const { dropped } = await keep({ eventMonths: 13, auditMonths: 12 });
    expect(dropped).toEqual([-15, -14, -13].map((offset) => partitionName('audit_logs', offset)));
    const { valid, complete, checked, from_seq, checkpoint, head_hash } = await verify();
    expect({ valid, complete, checked, from_seq }).toEqual({ valid: true, complete: true, checked: 3, from_seq: 5 });
    expect(checkpoint).toMatchObject({ seq: 4 });
    expect(head_hash).toBe(whole.head_hash);

    await insertEntry(0);
    await seal();
    expect(await verify()).toMatchObject({ valid: true, complete: true, checked: 4 });
  });
});

describe('making and dropping months', () => {
  /** Writes and reads as payments do, until told to stop. @returns how long the slowest round took */
  function startWriter(index: string) {
    const ending = new AbortController();
    const eventId = `evt_of_${index}`;
    const work = async () => {
      let slowestMs = 0;
      await insertDelivery(pool, { eventId, status: 'pending', at: new Date() });
      while (!ending.signal.aborted) {
        const from = performance.now();
        await inTransaction(pool, async (db) => {
          await db.query('update webhook_deliveries set attempt = 1 - attempt where event_id = $1', [eventId]);
          const { id } = await insertEventAt(db, { accountId, at: new Date() });
          await insertDelivery(db, { eventId: id, status: 'pending', at: new Date() });
          await db.query('select from events where id = $1', [id]);
        });
        slowestMs = Math.max(slowestMs, performance.now() - from);
      }
      return slowestMs;
    };
    const working = work();
    return {
      stop() {
        ending.abort();
        return working;
      },
    };
  }

  it('neither fails writers nor keeps them waiting for seconds', async () => {
    let round = 0;
    const keeping = async () => {
      round += 1;
      await makePartition(owner, { table: 'events', offset: -3 });
      await forget([2, 3]);
      const writers = [1, 2, 3].map((index) => startWriter(`${round}_${index}`));
      const { made, dropped } = await keep({ eventMonths: 1, auditMonths: 12 });
      const slowestMs = await Promise.all(writers.map(({ stop }) => stop()));
      expect(made).toHaveLength(8);
      expect(dropped).toEqual([partitionName('events', -3)]);
      expect(await findMiscounts(pool)).toEqual([]);
      return Math.max(...slowestMs);
    };
    expect(await bestOf(keeping, { withinMs: 5_000 })).toBeLessThan(5_000);
  });

  it('gives way to whoever uses the table for long, and those behind it go on', async () => {
    await makePartition(owner, { table: 'events', offset: -3 });
    await forget([3], ['events']);
    const reader = await pool.connect();
    try {
      await reader.query('begin');
      await reader.query('select from events');
      const refusals = await Promise.allSettled([
        makeNextPartition(pool, { monthsAhead: 3 }),
        dropOldestPartition(pool, { table: 'events', keepMonths: 1 }),
      ]);
      for (const refusal of refusals) expect(refusal).toSatisfy((r) => r.status === 'rejected' && isBusy(r.reason));
      const trying = makeNextPartition(pool, { monthsAhead: 3 }).catch((error) => error);
      const from = performance.now();
      await insertEventAt(pool, { accountId, at: new Date() });
      // It holds what the change needs and now wants more: of the two, it is not the one that loses.
      await insertEventAt(reader, { accountId, at: new Date() });
      await reader.query('select from events');
      // Others come behind it, and wait no longer than it does; behind one that waits for the reader they would wait for ever.
      await pool.query('select from events');
      expect(performance.now() - from).toBeLessThan(20_000);
      expect(isBusy(await trying)).toBe(true);
      await reader.query('commit');
    } finally {
      reader.release();
    }
    expect((await keep({ eventMonths: 1, auditMonths: 12 })).dropped).toEqual([partitionName('events', -3)]);
    expect(await partitions('events')).toContain(partitionName('events', 3));
  });

  it('drops whole months that are older than asked for, with their counts, and tells which', async () => {
    for (const table of ['events', 'webhook_deliveries', 'webhook_attempts'] as const)
      for (const offset of [-1, -2, -3]) await makePartition(owner, { table, offset });
    for (const offset of [-11, -12, -13, -14]) await makePartition(owner, { table: 'audit_logs', offset });
    for (const offset of [0, -1, -2, -3]) await insertEventAt(pool, { accountId, at: monthStart(offset) });
    while (await foldListCounts(pool)) {}
    await insertEventAt(pool, { accountId, at: monthStart(-2) });
    expect(await countEvents()).toBe(5);

    const { dropped } = await keep({ eventMonths: 1, auditMonths: 12 });
    expect(dropped).toEqual([
      ...['events', 'webhook_deliveries', 'webhook_attempts'].flatMap((table) =>
        [-3, -2].map((offset) => partitionName(table as 'events', offset)),
      ),
      ...[-14, -13].map((offset) => partitionName('audit_logs', offset)),
    ]);
    expect(logged.filter(({ msg }) => msg === 'dropped a month that is old enough')).toHaveLength(8);
    expect(await countEvents()).toBe(2);
    expect(await findMiscounts(pool)).toEqual([]);
    expect(await partitions('audit_logs')).toContain(partitionName('audit_logs', -12));
  });

  it('keeps a month of which deliveries are under way, and says so', async () => {
    for (const table of ['events', 'webhook_deliveries'] as const) await makePartition(owner, { table, offset: -3 });
    const { id } = await insertEventAt(pool, { accountId, at: monthStart(-3) });
    await insertDelivery(pool, { eventId: id, status: 'pending', at: monthStart(-3) });
    await insertDelivery(pool, { eventId: id, status: 'failed', at: new Date() });
    const first = await keep({ eventMonths: 1, auditMonths: 12 });
    expect(first).toMatchObject({
      dropped: [],
      staying: ['events', 'webhook_deliveries'].map(
        (table) => `${partitionName(table as 'events', -3)} stays: deliveries of it are under way`,
      ),
    });
    await pool.query(`update webhook_deliveries set status = 'failed', next_attempt_at = null`);
    expect((await keep({ eventMonths: 1, auditMonths: 12 })).dropped).toHaveLength(2);
  });

  it('leaves where each chain of the audit log goes on from, once for all', async () => {
    const quiet = (await insertTestAgent(pool)).accountId;
    for (const offset of [-13, -14, -15]) await makePartition(owner, { table: 'audit_logs', offset });
    const insert = (account: string, seq: number, offset: number) =>
      pool.query(
        `insert into audit_logs (id, account_id, seq, action, actor_type, resource_type, result, metadata, prev_hash,
                                 hash, created_at)
         values ($1, $2, $3::bigint, 'policy.deleted', 'user', 'policy', 'success', '{}', '', 'hash ' || $3::text, $4)`,
        [newId('aud'), account, seq, monthStart(offset)],
      );
    for (const [seq, offset] of [-15, -15, -14, 0].entries()) await insert(accountId, seq + 1, offset);
    await insert(quiet, 1, -15);
    const checkpoints = async () =>
      (await pool.query('select account_id, seq::int, hash from audit_checkpoints order by seq')).rows;
    await dropOldestPartition(pool, { table: 'audit_logs', keepMonths: 12 });
    expect(await checkpoints()).toEqual([
      { account_id: quiet, seq: 1, hash: 'hash 1' },
      { account_id: accountId, seq: 2, hash: 'hash 2' },
    ]);
    await keep({ eventMonths: 13, auditMonths: 12 });
    expect(await checkpoints()).toEqual([
      { account_id: quiet, seq: 1, hash: 'hash 1' },
      { account_id: accountId, seq: 3, hash: 'hash 3' },
    ]);
  });

  it.each([
    ['audit_logs', 11, 'audit_logs keeps 12 to 1200 months, not 11'],
    ['audit_logs', -1, 'audit_logs keeps 12 to 1200 months, not -1'],
    ['events', 0, 'events keeps 1 to 1200 months, not 0'],
    ['events', null, 'events keeps 1 to 1200 months, not <NULL>'],
    ['transactions', 13, 'transactions is not kept by month'],
    [null, 13, '<NULL> is not kept by month'],
  ])('refuses to keep less than the least, and to touch other tables: %s, %s', async (table, keepMonths, words) => {
    await expect(pool.query('select drop_oldest_partition($1, $2)', [table, keepMonths])).rejects.toThrow(words);
    for (const months of [null, -1, 25])
      await expect(pool.query('select make_next_partition($1)', [months])).rejects.toThrow('months_ahead');
  });

  it('forgets the counts of requests of whom it has not seen for two days', async () => {
    await pool.query(`
      insert into request_windows (subject, day, used_at)
      select 'key_' || age, now()::date - age, now() - age * interval '1 day' from generate_series(1, 3) age`);
    await keep();
    const { rows } = await pool.query('select subject from request_windows');
    expect(rows).toEqual([{ subject: 'key_1' }]);
    expect(logged).toContainEqual(expect.objectContaining({ subjects: 2 }));
  });

  it('is all that the services may do to the schema; partitions cannot be reached by name', async () => {
    await forget([3], ['events', 'audit_logs']);
    await make();
    await makePartition(owner, { table: 'audit_logs', offset: -1 });
    for (const call of [`make_partition('events', '2020-01-01')`, 'partitioned_tables()'])
      await expect(pool.query(`select ${call}`), call).rejects.toThrow('permission denied for function');
    for (const statement of [
      `drop table ${partitionName('events', 3)}`,
      `alter table events detach partition ${partitionName('events', 3)}`,
      'create table mine (id text)',
      ...tables.flatMap((table) =>
        [partitionName(table, 3), `${table}_other`].flatMap((name) => [
          `select from ${name}`,
          `insert into ${name} select * from ${table} where false`,
          `update ${name} set created_at = created_at`,
          `delete from ${name}`,
          `truncate ${name}`,
        ]),
      ),
      `delete from ${partitionName('audit_logs', -1)}`,
      ...['events', 'audit_logs', 'webhook_attempts', 'audit_checkpoints'].flatMap((table) => [
        `update ${table} set created_at = created_at`,
        `delete from ${table}`,
        `truncate ${table}`,
      ]),
      'insert into audit_checkpoints select * from audit_checkpoints',
    ])
      await expect(pool.query(statement), statement).rejects.toThrow(/permission denied|must be owner/);
    expect(await findMisplacedRows(pool)).toEqual([]);
    expect(neededBecause(new Error('other'))).toBeUndefined();
  });
});
