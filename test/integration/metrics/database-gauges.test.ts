import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { readVitalSigns } from '../../../shared/db/vital-signs.ts';
import { createLogger } from '../../../shared/log.ts';
import { measureDatabase } from '../../../shared/metrics/database-gauges.ts';
import { bestOf } from '../../support/best-of.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { insertTestAgent, insertTestPayment } from '../../support/rows.ts';

/** Payments that are open; ten times as many have ended. */
const open = 10_000;
/** A look at that many, on a busy machine. */
const longestLookMs = 1_500;

let database: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'metrics test' });
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const measured = (from: Pool) => {
  const registry = new Registry();
  measureDatabase({ pool: from, registry, log: createLogger({ process: 'test', level: 'silent' }) });
  return registry;
};

describe('what the database tells', () => {
  it('says of an empty one that nothing waits and nothing is frozen', async () => {
    const text = await measured(pool).metrics();
    expect(text).toContain('purser_database_up 1');
    for (const name of [
      'approvals_waiting',
      'approval_mails_failed',
      'webhook_deliveries_waiting',
      'freeze_untold_seconds',
    ])
      expect(text).toContain(`\npurser_${name} 0\n`);
    expect(text).toContain('purser_frozen{scope="installation"} 0');
    expect(text).not.toMatch(/^purser_transactions_open\{/m);
  });

  it('stays quick beside a hundred thousand payments that have ended, and ten thousand that are open', {
    timeout: 60_000,
  }, async () => {
    const agent = await insertTestAgent(pool);
    const id = await insertTestPayment(pool, agent);
    await pool.query(
      `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
         from_address, to_address, status, status_detail, updated_at)
       select 'tx_' || n, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor, from_address, to_address,
         case when n <= $2 then 'pending' else 'confirmed' end, case when n <= $2 then 'signing' else 'confirmed' end,
         now() - interval '20 minutes'
       from transactions, generate_series(1, $2::int * 11) n where id = $1`,
      [id, open],
    );
    await pool.query(
      `insert into slots (wallet_id, chain, nonce, transaction_id, payload, closed_at)
       select wallet_id, chain, substr(id, 4)::int, id, '{}', case when status = 'pending' then null else now() end
       from transactions where status_detail in ('signing', 'confirmed')`,
    );
    await pool.query(
      `insert into reservations (payment_id, account_id, agent_id, token, atoms, state, instant, closed_at)
       select id, account_id, agent_id, token, 1, case when status = 'pending' then 'reserved' else 'settled' end, now(),
         case when status = 'pending' then null else now() end from transactions where status_detail in ('signing', 'confirmed')`,
    );
    let signs = await readVitalSigns(pool);
    const tookMs = await bestOf(
      async () => {
        const startedMs = performance.now();
        signs = await readVitalSigns(pool);
        return performance.now() - startedMs;
      },
      { withinMs: longestLookMs },
    );
    const value = (sign: string) => signs.find((each) => each.sign === sign && each.labels.state !== 'created')?.value;
    expect(value('transactions_open')).toBe(open);
    expect(value('slots_open')).toBe(open);
    expect(value('transactions_unmoved')).toBeGreaterThanOrEqual(1_200);
    expect(signs.filter(({ sign }) => sign === 'leftovers').map((each) => each.value)).toEqual([0, 0]);
    expect(tookMs).toBeLessThan(longestLookMs);
    process.stderr.write(`a look took ${Math.round(tookMs)} ms\n`);
  });

  it('is asked once, however many scrape at a time', async () => {
    let asked = 0;
    const counting = new Proxy(pool, {
      get(target, name, receiver) {
        if (name === 'connect') asked += 1;
        return Reflect.get(target, name, receiver);
      },
    });
    const registry = measured(counting);
    await Promise.all(Array.from({ length: 10 }, () => registry.metrics()));
    expect(asked).toBe(1);
  });

  it('is absent while the database is away, and no scrape fails for it', async () => {
    const away = createPool({ url: 'postgres://purser:purser@127.0.0.1:9/purser', application: 'metrics test' });
    const text = await measured(away).metrics();
    expect(text).toContain('purser_database_up 0');
    expect(text).not.toMatch(/^purser_(approvals_waiting|frozen|audit_unsealed_entries)\b/m);
    await away.end();
  });
});
