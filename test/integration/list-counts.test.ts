import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCountFolder } from '../../activities/fold-counts.ts';
import { foldListCounts, readListCount } from '../../shared/db/list-counts.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { confirmTransaction, countTransactions, failTransaction } from '../../shared/db/transactions.ts';
import { newId } from '../../shared/ids.ts';
import { createLogger } from '../../shared/log.ts';
import { eventually } from '../support/client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { findMiscounts } from '../support/list-counts.ts';
import { insertTestAgent, insertTestPayment, type TestAgent } from '../support/rows.ts';

let database: TestDatabase;
let pool: Pool;
let agent: TestAgent;
let other: TestAgent;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test', max: 20 });
  agent = await insertTestAgent(pool);
  other = await insertTestAgent(pool);
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const oneOf = <T>(values: readonly T[]): T => values[Math.floor(Math.random() * values.length)]!;
const deltas = async () => (await pool.query('select from list_count_deltas')).rowCount!;
const foldAll = async () => {
  while (await foldListCounts(pool)) {}
};
const receipt = { hash: '0xabc', feeMinor: '1', blockNumber: '1', confirmations: 1 };

/** Several rows in one statement, of several accounts and months. */
async function insertEvents(): Promise<void> {
  await pool.query(
    `insert into events (id, account_id, type, resource_type, resource_id, data, created_at)
     select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), 'transaction', 'tx_1', '{}',
            now() - random() * interval '40 days'`,
    [
      [newId('evt'), newId('evt'), newId('evt')],
      [agent.accountId, agent.accountId, other.accountId],
      ['payment.pending', 'payment.failed', 'payment.pending'],
    ],
  );
}

async function insertAuditRows(): Promise<void> {
  await pool.query(
    `insert into audit_logs (id, account_id, seq, action, actor_type, actor_id, resource_type, agent_id, result,
                             metadata, prev_hash, hash, created_at)
     select unnest($1::text[]), $2, 1, unnest(array['api_key.created', 'policy.deleted']), 'user',
            unnest(array[null, 'https://a.example/b']), 'policy', unnest(array[$3, null]),
            unnest(array['success', 'denied']), '{}', '', '', now()`,
    [[newId('aud'), newId('aud')], agent.accountId, agent.agentId],
  );
}

async function sendDelivery(): Promise<void> {
  const id = newId('dlv');
  await pool.query(
    `insert into webhook_deliveries (id, account_id, webhook_id, event_id, event_type)
     values ($1, $2, $3, 'evt_1', 'payment.pending')`,
    [id, agent.accountId, oneOf(['whk_1', 'whk_2'])],
  );
  await pool.query(
    `update webhook_deliveries set status = $2, attempt = 1, next_attempt_at = case when $2 = 'pending' then now() end
     where id = $1`,
    [id, oneOf(['pending', 'succeeded', 'failed'])],
  );
}

const payments: string[] = [];
async function makePayment(): Promise<void> {
  const id = await insertTestPayment(pool, oneOf([agent, other]));
  payments.push(id);
  const end = oneOf(['none', 'confirmed', 'failed', 'both']);
  if (end === 'confirmed') await confirmTransaction(pool, { id, ...receipt });
  if (end === 'failed') await failTransaction(pool, { id, code: 'dropped', message: 'over' });
  if (end === 'both')
    await Promise.all([
      confirmTransaction(pool, { id, ...receipt }),
      failTransaction(pool, { id, code: 'dropped', message: 'over' }),
    ]);
}

/** What never was: nobody may count it. */
async function rollBack(): Promise<void> {
  if (payments.length === 0) return;
  const client = await pool.connect();
  try {
    await client.query('begin');
    await failTransaction(client, { id: oneOf(payments), code: 'dropped', message: 'over' });
    await client.query(
      `insert into events (id, account_id, type, resource_type, resource_id, data)
       values ($1, $2, 'payment.pending', 'transaction', 'tx_1', '{}')`,
      [newId('evt'), agent.accountId],
    );
    await client.query('rollback');
  } finally {
    client.release();
  }
}

describe('kept counts of lists', () => {
  it('agree with the rows at every moment while several processes write and several fold', async () => {
    const rounds = 150;
    let writing = true;
    const writers = Array.from({ length: 4 }, async () => {
      for (let round = 0; round < rounds; round += 1)
        await oneOf([insertEvents, insertAuditRows, sendDelivery, makePayment, makePayment, rollBack])();
    });
    let folds = 0;
    const folders = Array.from({ length: 3 }, async () => {
      while (writing) {
        await foldListCounts(pool);
        folds += 1;
      }
    });
    const check = (async () => {
      let checks = 0;
      while (writing) {
        expect(await findMiscounts(pool)).toEqual([]);
        checks += 1;
      }
      return checks;
    })();
    await Promise.all(writers).finally(() => {
      writing = false;
    });
    await Promise.all(folders);
    expect(await check).toBeGreaterThan(0);
    expect(folds).toBeGreaterThan(0);
    expect(await findMiscounts(pool)).toEqual([]);
    await foldAll();
    expect(await deltas()).toBe(0);
    expect(await findMiscounts(pool)).toEqual([]);
  });

  it('are folded by one at a time; the others go on with something else', async () => {
    await insertEvents();
    const client = await pool.connect();
    try {
      await client.query('begin');
      await client.query(`select pg_advisory_xact_lock(hashtext('list counts'))`);
      expect(await foldListCounts(pool)).toBe(false);
      expect(await deltas()).toBeGreaterThan(0);
    } finally {
      await client.query('rollback');
      client.release();
    }
    await foldAll();
    expect(await deltas()).toBe(0);
  });

  it('are folded batch by batch until nothing is left', async () => {
    await pool.query(
      `insert into list_count_deltas (list, key, month, delta)
       select 'events', 'acct_many', '2026-01-01', 1 from generate_series(1, 25000)`,
    );
    expect(await foldListCounts(pool)).toBe(true);
    expect(await readListCount(pool, { list: 'events', owner: 'acct_many' })).toBe(25_000);
    const folder = createCountFolder({ pool, logger: createLogger({ process: 'test', level: 'silent' }) });
    folder.start();
    await eventually(deltas, (left) => left === 0);
    await folder.stop();
    expect(await readListCount(pool, { list: 'events', owner: 'acct_many' })).toBe(25_000);
    await pool.query(`delete from list_counts where key = 'acct_many'`);
  });

  it('serve every filter of transactions, and follow what becomes of them', async () => {
    const fresh = await insertTestAgent(pool);
    const { accountId, agentId } = fresh;
    const ids = [await insertTestPayment(pool, fresh), await insertTestPayment(pool, fresh)];
    const count = (filter: Partial<Parameters<typeof countTransactions>[1]> = {}) =>
      countTransactions(pool, { accountId, ...filter });
    expect(await count()).toBe(2);
    expect(await count({ status: 'pending' })).toBe(2);
    await confirmTransaction(pool, { id: ids[0]!, ...receipt });
    await foldAll();
    await confirmTransaction(pool, { id: ids[0]!, ...receipt });
    await failTransaction(pool, { id: ids[0]!, code: 'dropped', message: 'over' });
    expect(await count({ status: 'pending' })).toBe(1);
    expect(await count({ status: 'confirmed' })).toBe(1);
    expect(await count({ status: 'failed' })).toBe(0);
    expect(await count({ agentId })).toBe(2);
    expect(await count({ agentId, status: 'confirmed' })).toBe(1);
    expect(await count({ agentId: agent.agentId })).toBe(0);
    expect(await countTransactions(pool, { accountId: agent.accountId, agentId })).toBe(0);
  });

  it('are refused where nothing is counted by such filters', async () => {
    const filter = { action: 'policy.deleted', result: 'denied' };
    await expect(readListCount(pool, { list: 'audit_logs', owner: agent.accountId, filter })).rejects.toThrow(
      'Rows of audit_logs are not counted by action,result.',
    );
    const forged = { agent: `${agent.agentId}/result=denied` };
    await expect(readListCount(pool, { list: 'audit_logs', owner: agent.accountId, filter: forged })).rejects.toThrow();
  });
});
