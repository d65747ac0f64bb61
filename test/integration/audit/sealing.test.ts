import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Loop } from '../../../activities/loop.ts';
import { createAuditSealer } from '../../../activities/seal-audit.ts';
import { readListCount } from '../../../shared/db/list-counts.ts';
import { createPool, inTransaction, type Pool } from '../../../shared/db/pool.ts';
import { createLogger } from '../../../shared/log.ts';
import { newAccount, note, noteMany, unsealed, wholeChain } from '../../support/audit-rows.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';

const silent = createLogger({ process: 'test', level: 'silent' });
const within = { timeout: 60_000, interval: 20 };

describe('sealing the audit log', () => {
  let database: TestDatabase;
  let pool: Pool;
  const running: Loop[] = [];
  const pools: Pool[] = [];

  beforeAll(async () => {
    database = await createTestDatabase();
    pool = createPool({ url: database.url, application: 'test' });
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((sealer) => sealer.stop()));
    await Promise.all(pools.splice(0).map((each) => each.end()));
  });
  afterAll(async () => {
    await pool?.end();
    await database?.drop();
  });

  /** A sealer with connections of its own, as in a process of its own. */
  function startSealer(logger = silent): Loop {
    const own = createPool({ url: database.url, application: 'test-sealer' });
    const sealer = createAuditSealer({ pool: own, logger });
    pools.push(own);
    running.push(sealer);
    sealer.start();
    return sealer;
  }

  const allSealed = () => vi.waitFor(async () => expect(await unsealed(pool)).toBe(0), within);

  async function asOwner(statement: string): Promise<void> {
    const client = new pg.Client({ connectionString: database.ownerUrl });
    await client.connect();
    await client.query(statement).finally(() => client.end());
  }

  it('gives each entry the next place of its account, in the order in which they were written', async () => {
    const [one, other] = [await newAccount(pool), await newAccount(pool)];
    for (let number = 1; number <= 5; number += 1) {
      await note(pool, one, { metadata: { number } });
      await note(pool, other, { metadata: { number } });
    }
    startSealer();
    await allSealed();
    for (const account of [one, other]) {
      const entries = await wholeChain(pool, account);
      expect(entries.map(({ metadata }) => metadata)).toEqual([1, 2, 3, 4, 5].map((number) => ({ number })));
    }
  });

  it('keeps what was written, to the member', async () => {
    const account = await newAccount(pool);
    const changes = { before: null, after: { name: 'Ωmega', list: [1, 1e21, -0.5, true, null], nul: 'a\u0000b' } };
    await note(pool, account, {
      acting: {
        actor: { type: 'user', id: 'user 1', name: 'ops@example.com' },
        ipAddress: '203.0.113.7',
        userAgent: 'curl "8", {x}\\',
        requestId: 'request 1',
      },
      agentId: 'agent_1',
      result: 'denied',
      changes,
      metadata: { __proto: 1, quote: '"\\,{}' },
    });
    startSealer();
    await allSealed();
    expect(await wholeChain(pool, account)).toEqual([
      {
        id: expect.stringMatching(/^aud_/),
        seq: 1,
        action: 'policy.updated',
        actor: { type: 'user', id: 'user 1', name: 'ops@example.com' },
        resource: { type: 'policy', id: 'pol_1' },
        agent_id: 'agent_1',
        result: 'denied',
        ip_address: '203.0.113.7',
        user_agent: 'curl "8", {x}\\',
        request_id: 'request 1',
        changes,
        metadata: { __proto: 1, quote: '"\\,{}' },
        prev_hash: '0'.repeat(64),
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      },
    ]);
  });

  it('seals what has no canonical form as it can be read, and what earlier versions wrote with less in it', async () => {
    const account = await newAccount(pool);
    await note(pool, account, { metadata: { text: 'a\ud800b', '\udfff': 1 } });
    const deep = `{"deep":${'['.repeat(5_000)}${']'.repeat(5_000)}}`;
    for (const metadata of [deep, '{}'])
      await pool.query(
        `insert into audit_inbox (id, account_id, action, actor_type, resource_type, result, metadata)
         values ('aud_' || gen_random_uuid(), $1, 'transaction.evaluated', 'system', 'transaction', 'success', $2)`,
        [account, metadata],
      );
    startSealer();
    await allSealed();
    const [first, second, third] = await wholeChain(pool, account);
    expect(first!.metadata).toEqual({ text: 'a\ufffdb', '\ufffd': 1 });
    expect(JSON.stringify(second!.metadata)).toContain('[nested too deeply]');
    expect(third).toMatchObject({ actor: { type: 'system', id: null, name: null }, changes: null, metadata: {} });
  });

  it('gives an entry that was committed late the next place, and raises its created_at to that of the one before', async () => {
    const account = await newAccount(pool);
    const late = await pool.connect();
    try {
      await late.query('begin');
      await note(late, account, { metadata: { number: 2 } });
      const written = await late.query<{ created_at: Date }>(
        'select created_at from audit_inbox where account_id = $1',
        [account],
      );
      await vi.waitUntil(async () => {
        const { rows } = await pool.query<{ now: Date }>('select now()::timestamptz(3) as now');
        return rows[0]!.now > written.rows[0]!.created_at;
      });
      await note(pool, account, { metadata: { number: 1 } });
      startSealer();
      await vi.waitFor(async () => expect(await wholeChain(pool, account)).toHaveLength(1), within);
      await late.query('commit');
      await allSealed();
      const [first, second] = await wholeChain(pool, account);
      expect(second!.metadata).toEqual({ number: 2 });
      expect(second!.created_at).toBe(first!.created_at);
      expect(Date.parse(second!.created_at)).toBeGreaterThan(written.rows[0]!.created_at.getTime());
    } finally {
      late.release();
    }
  });

  it('makes one chain where several processes seal while entries are written', async () => {
    const accounts = [await newAccount(pool), await newAccount(pool), await newAccount(pool)];
    for (let index = 0; index < 4; index += 1) startSealer();
    await Promise.all(
      Array.from({ length: 8 }, async (_, writer) => {
        for (let number = 0; number < 60; number += 1)
          await inTransaction(pool, async (db) => {
            await note(db, accounts[number % 3]!, { metadata: { writer, number } });
            await note(db, accounts[number % 3]!, { metadata: { writer, number, second: true } });
          });
      }),
    );
    await allSealed();
    for (const account of accounts) {
      const entries = await wholeChain(pool, account);
      expect(entries).toHaveLength(320);
      expect(new Set(entries.map(({ metadata }) => JSON.stringify(metadata))).size).toBe(320);
      const instants = entries.map(({ created_at }) => created_at);
      expect(instants).toEqual(instants.toSorted());
    }
  });

  it('counts what it has sealed, by what lists are filtered by', async () => {
    const account = await newAccount(pool);
    await note(pool, account, { agentId: 'agent_1', result: 'denied' });
    await note(pool, account, { agentId: 'agent_1' });
    await note(pool, account, { action: 'agent.created' });
    startSealer();
    await allSealed();
    const count = (filter: Record<string, string>) =>
      readListCount(pool, { list: 'audit_logs', owner: account, filter });
    expect([
      await count({}),
      await count({ action: 'policy.updated' }),
      await count({ result: 'success' }),
      await count({ agent: 'agent_1' }),
      await count({ agent: 'agent_1', result: 'denied' }),
    ]).toEqual([3, 2, 2, 2, 1]);
  });

  it('holds no account up for one that has a great many entries', async () => {
    const [busy, ...others] = [await newAccount(pool), await newAccount(pool), await newAccount(pool)];
    await noteMany(pool, busy!, 20_000);
    for (const account of others) await note(pool, account);
    startSealer();
    for (const account of others)
      await vi.waitFor(async () => expect(await wholeChain(pool, account)).toHaveLength(1), within);
    expect(await unsealed(pool)).toBeGreaterThan(10_000);
    await allSealed();
    const entries = await wholeChain(pool, busy!);
    expect(entries.map(({ metadata }) => (metadata as { number: number }).number)).toEqual(
      Array.from({ length: 20_000 }, (_, index) => index + 1),
    );
  });

  it('gives every account its turn where more wait than one round has room for', async () => {
    const accounts = await Promise.all(Array.from({ length: 230 }, () => newAccount(pool)));
    for (const account of accounts) await note(pool, account);
    startSealer();
    await allSealed();
    for (const account of accounts) expect(await wholeChain(pool, account)).toHaveLength(1);
  });

  it('seals the others where the entries of one account cannot be sealed, says so once, and goes on when they can', async () => {
    const [stuck, other] = [await newAccount(pool), await newAccount(pool)];
    await asOwner(`create function refuse_one() returns trigger language plpgsql as $$
      begin if new.account_id = '${stuck}' then raise exception 'no room'; end if; return new; end $$;
      create trigger refuse_one before insert on audit_logs for each row execute function refuse_one()`);
    const lines: string[] = [];
    startSealer(pino({ level: 'warn' }, { write: (line) => void lines.push(line) }));
    await note(pool, stuck);
    for (let number = 1; number <= 4; number += 1) {
      await note(pool, other);
      await vi.waitFor(async () => expect(await wholeChain(pool, other)).toHaveLength(number), within);
    }
    await asOwner('drop trigger refuse_one on audit_logs; drop function refuse_one()');
    await allSealed();
    expect(await wholeChain(pool, stuck)).toHaveLength(1);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(stuck);
  });

  it('loses and doubles nothing when its connections are cut at any moment', async () => {
    const account = await newAccount(pool);
    await noteMany(pool, account, 15_000);
    startSealer();
    for (let cuts = 0; cuts < 5; )
      cuts += (
        await pool.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where application_name = 'test-sealer' and datname = current_database() and state <> 'idle'`,
        )
      ).rowCount!;
    await allSealed();
    expect(await wholeChain(pool, account)).toHaveLength(15_000);
  });

  it('loses and doubles nothing when its process is killed at any moment', async () => {
    const account = await newAccount(pool);
    const program = fileURLToPath(new URL('../../support/sealing-process.ts', import.meta.url));
    const start = () => spawn(process.execPath, [program, database.url], { stdio: 'inherit' });
    const count = async () => {
      const { rows } = await pool.query<{ seq: string }>('select seq from audit_heads where account_id = $1', [
        account,
      ]);
      return Number(rows[0]?.seq ?? 0);
    };
    const kill = async (child: ChildProcess) => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    };
    let children = [start(), start()];
    try {
      for (let round = 0; round < 6; round += 1) {
        const from = await count();
        await noteMany(pool, account, 4_000);
        await vi.waitFor(async () => expect(await count()).toBeGreaterThan(from), within);
        await Promise.all(children.map(kill));
        children = [start(), start()];
      }
      await allSealed();
    } finally {
      await Promise.all(children.map(kill));
    }
    const entries = await wholeChain(pool, account);
    expect(new Set(entries.map(({ id }) => id)).size).toBe(24_000);
    expect(entries).toHaveLength(24_000);
  });
});
