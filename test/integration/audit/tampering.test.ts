import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createAuditSealer } from '../../../activities/seal-audit.ts';
import { verifyAuditExport } from '../../../sdk/verify-audit-export.ts';
import { type AuditEntry, type ChainPlace, hashAuditEntry } from '../../../shared/audit-chain.ts';
import { readChain } from '../../../shared/db/audit-logs.ts';
import { createLogger } from '../../../shared/log.ts';
import { noteMany, unsealed, wholeChain } from '../../support/audit-rows.ts';
import { asSuperuser, ownerUrlOf } from '../../support/tamper.ts';
import { startTestApi, type TestAccount, type TestApi } from '../api/harness.ts';

const length = 30;

describe('the audit log, once somebody has done something to it', () => {
  let api: TestApi;
  let account: TestAccount;
  let entries: AuditEntry[];
  /** As somebody noted it when all was well. */
  let noted: ChainPlace;
  /** The partition in which the entries lie. */
  let partition: string;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
  });
  afterAll(() => api?.stop());

  beforeEach(async () => {
    account = await api.account();
    await noteMany(api.pool, account.id, length);
    await sealAll();
    entries = await wholeChain(api.pool, account.id);
    noted = (await account.call('GET', '/api/v1/audit-logs/head')).body;
    const { rows } = await api.pool.query<{ name: string }>(
      `select tableoid::regclass::text as name from audit_logs where account_id = $1 and seq = $2`,
      [account.id, length],
    );
    partition = rows[0]!.name;
  });

  async function sealAll(): Promise<void> {
    const sealer = createAuditSealer({ pool: api.pool, logger: createLogger({ process: 'test', level: 'silent' }) });
    sealer.start();
    await vi.waitFor(async () => expect(await unsealed(api.pool)).toBe(0), { timeout: 30_000, interval: 20 });
    await sealer.stop();
  }

  const tamper = (...statements: string[]) =>
    asSuperuser(api.databaseUrl, async (client) => {
      for (const statement of statements) {
        const { rowCount } = await client.query(statement.replaceAll('$account', `'${account.id}'`));
        expect([statement, rowCount]).not.toEqual([statement, 0]);
      }
    });

  /** What the service and the offline verifier say, each with the head that was noted, and without. */
  async function findings() {
    const online = async (query: string) => {
      const { body } = await account.call('GET', `/api/v1/audit-logs/verify${query}`);
      return body.valid ? 'valid' : `${body.reason} at ${body.broken_at}`;
    };
    const response = await fetch(`${api.url}/api/v1/audit-logs/export`, { headers: { 'x-api-key': account.key } });
    const text = await response.text();
    const offline = async (head?: ChainPlace) => {
      const report = await verifyAuditExport([text], { head });
      return report.valid ? 'valid' : `${report.reason} at ${report.brokenAt}`;
    };
    return {
      online: await online(''),
      onlineByHead: await online(`?head_seq=${noted.seq}&head_hash=${noted.hash}`),
      offline: await offline(),
      offlineByHead: await offline(noted),
    };
  }
  const everywhere = (found: string) => ({
    online: found,
    onlineByHead: found,
    offline: found,
    offlineByHead: found,
  });

  it('is valid before', async () => {
    expect(await findings()).toEqual(everywhere('valid'));
  });

  const changes = {
    id: `id = id || 'x'`,
    action: `action = 'policy.deleted'`,
    actor_type: `actor_type = 'user'`,
    actor_id: `actor_id = 'key_1'`,
    actor_name: `actor_name = 'ops'`,
    resource_type: `resource_type = 'agent'`,
    resource_id: `resource_id = null`,
    agent_id: `agent_id = 'agent_1'`,
    result: `result = 'denied'`,
    ip_address: `ip_address = '203.0.113.7'`,
    user_agent: `user_agent = 'curl'`,
    request_id: `request_id = 'request 1'`,
    changes: `changes = '{"before":null,"after":1}'`,
    metadata: `metadata = '{"number":1e999}'`,
    prev_hash: `prev_hash = hash`,
    hash: `hash = prev_hash`,
    created_at: `created_at = created_at + interval '1 millisecond'`,
    'created_at, without end': `created_at = 'infinity'`,
    'created_at, before all years': `created_at = '4713-01-01 BC'`,
  };
  it.each(Object.entries(changes))('shows that %s of an entry was changed', async (_name, change) => {
    await tamper(`update audit_logs set ${change} where account_id = $account and seq = 17`);
    expect(await findings()).toEqual(everywhere('changed at 17'));
  });

  it('shows that an entry was changed in its partition', async () => {
    await tamper(`update ${partition} set result = 'denied' where account_id = $account and seq = ${length}`);
    expect(await findings()).toEqual(everywhere(`changed at ${length}`));
  });

  it('shows that entries were deleted', async () => {
    await tamper('delete from audit_logs where account_id = $account and seq in (9, 10, 20)');
    expect(await findings()).toEqual(everywhere('missing at 9'));
    await tamper('delete from audit_logs where account_id = $account and seq = 1');
    expect(await findings()).toEqual(everywhere('wrong_start at 1'));
  });

  it('shows that an entry went to another account, where it was and where it is', async () => {
    const other = await api.account();
    await noteMany(api.pool, other.id, 10);
    await sealAll();
    await tamper(`update audit_logs set account_id = '${other.id}' where account_id = $account and seq = 5`);
    expect(await findings()).toEqual(everywhere('missing at 5'));
    account = other;
    noted = (await other.call('GET', '/api/v1/audit-logs/head')).body;
    expect((await findings()).onlineByHead).toMatch(/ at 5$/);
  });

  const columns = `account_id, action, actor_type, resource_type, result, metadata`;
  it('shows that an entry was put in between, whatever its number', async () => {
    const insert = (values: string, from: string) =>
      `insert into audit_logs (id, ${columns}, seq, prev_hash, hash, created_at)
       select 'aud_forged', ${columns}, ${values} from audit_logs where account_id = $account and seq = ${from}`;
    await tamper(insert(`seq, prev_hash, repeat('f', 64), created_at`, '12'));
    expect(await findings()).toEqual(everywhere('inserted at 12'));
    await tamper(`delete from audit_logs where id = 'aud_forged'`);
    await tamper('alter table audit_logs drop constraint audit_logs_seq_check');
    await tamper(insert(`0, prev_hash, hash, created_at`, '1'));
    expect(await findings()).toMatchObject({ online: 'wrong_start at 0', onlineByHead: 'wrong_start at 0' });
    await tamper(`delete from audit_logs where id = 'aud_forged'`);
    await tamper(insert(`${length + 1}, hash, hash, created_at`, String(length)));
    expect(await findings()).toMatchObject({
      online: `inserted at ${length + 1}`,
      onlineByHead: `inserted at ${length + 1}`,
    });
    await tamper(`delete from audit_logs where id = 'aud_forged'`);
    expect(await findings()).toEqual(everywhere('valid'));
  });

  it('shows that a copy of an entry was put beside it, also one that only its instant tells apart', async () => {
    await tamper(
      `insert into audit_logs select (jsonb_populate_record(l, jsonb_build_object('created_at', l.created_at + interval '1 day'))).*
       from audit_logs l where account_id = $account and seq = 12`,
    );
    expect(await findings()).toEqual(everywhere('inserted at 12'));
  });

  it('is read whole in batches of any length, also where rows have one number, or one number and one id', async () => {
    await tamper(
      `insert into audit_logs select (jsonb_populate_record(l, jsonb_build_object('created_at', created_at + n * interval '1 second'))).*
       from audit_logs l, generate_series(1, 2) n where account_id = $account and seq in (12, 13)`,
      `insert into audit_logs select (jsonb_populate_record(l, jsonb_build_object('id', 'aud_' || n))).*
       from audit_logs l, generate_series(1, 3) n where account_id = $account and seq = 20`,
    );
    for (const batch of [1, 2, 3, 7, 100]) {
      const batches = readChain(api.pool, { accountId: account.id, fromSeq: 2, toSeq: 29, batch });
      const seqs: number[] = [];
      for await (const rows of batches) seqs.push(...rows.map(({ seq }) => Number(seq)));
      expect(seqs).toHaveLength(28 + 4 + 3);
      expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
      expect([seqs[0], seqs.at(-1)]).toEqual([2, 29]);
    }
  });

  it('shows that two entries have changed places', async () => {
    await tamper(
      `update audit_logs set seq = case seq when 8 then 21 else 8 end where account_id = $account and seq in (8, 21)`,
    );
    expect(await findings()).toEqual(everywhere('changed at 8'));
  });

  it('shows that the end was cut off', async () => {
    await tamper('delete from audit_logs where account_id = $account and seq > 25');
    expect(await findings()).toEqual({
      online: 'cut_off at 26',
      onlineByHead: 'cut_off at 26',
      // A file by itself does not know that it goes on.
      offline: 'valid',
      offlineByHead: 'cut_off at 26',
    });
  });

  it('shows that the end was cut off and the head set back, by a head that was noted before and by nothing else', async () => {
    await tamper(
      'delete from audit_logs where account_id = $account and seq > 25',
      `update audit_heads h set seq = l.seq, hash = l.hash, created_at = l.created_at from audit_logs l
       where h.account_id = $account and l.account_id = $account and l.seq = 25`,
    );
    const found = { online: 'valid', onlineByHead: 'cut_off at 26', offline: 'valid', offlineByHead: 'cut_off at 26' };
    expect(await findings()).toEqual(found);
    // Nor do the entries that come after hide it.
    await noteMany(api.pool, account.id, 20);
    await sealAll();
    const later = `rewritten at ${length}`;
    expect(await findings()).toEqual({ online: 'valid', onlineByHead: later, offline: 'valid', offlineByHead: later });
  });

  it('shows that everything was taken away, by a head that was noted before', async () => {
    await tamper(
      'delete from audit_logs where account_id = $account',
      'delete from audit_heads where account_id = $account',
    );
    expect(await findings()).toMatchObject({ onlineByHead: 'cut_off at 1', offlineByHead: 'cut_off at 1' });
  });

  it('shows that the head was set elsewhere', async () => {
    await tamper('update audit_heads set seq = 25 where account_id = $account');
    expect(await findings()).toMatchObject({ online: 'rewritten at 25', onlineByHead: 'rewritten at 25' });
    await tamper(
      `update audit_heads set hash = (select hash from audit_logs where account_id = $account and seq = 25)
       where account_id = $account`,
    );
    expect(await findings()).toMatchObject({ online: 'inserted at 26', onlineByHead: 'cut_off at 26' });
    await tamper('delete from audit_heads where account_id = $account');
    expect(await findings()).toMatchObject({ online: 'inserted at 1', onlineByHead: 'cut_off at 1' });
  });

  it('shows that an entry was changed and all later ones hashed anew, by a head that was noted before', async () => {
    await tamper(...(await anewFrom(10)));
    const found = `rewritten at ${length}`;
    expect(await findings()).toEqual({ online: 'valid', onlineByHead: found, offline: 'valid', offlineByHead: found });
  });

  it('shows that an entry was changed and hashed anew by the one that comes after', async () => {
    const [forge] = await anewFrom(10);
    await tamper(forge!);
    expect(await findings()).toEqual(everywhere('unlinked at 11'));
  });

  it('goes on by itself where it was whole, and shows the place from then on', async () => {
    await tamper(`update audit_logs set result = 'denied' where account_id = $account and seq = 17`);
    await noteMany(api.pool, account.id, 5);
    await sealAll();
    expect(await findings()).toEqual(everywhere('changed at 17'));
    const { body } = await account.call('GET', '/api/v1/audit-logs/verify?from_seq=18');
    expect(body).toMatchObject({ valid: true, checked: length + 5 - 17 });
  });

  /** Statements that change the entry with this number, and give it and all later ones new hashes; the head too. */
  async function anewFrom(seq: number): Promise<string[]> {
    let last: AuditEntry = entries[seq - 2]!;
    const statements = entries.slice(seq - 1).map((entry) => {
      const content = { ...entry, prev_hash: last.hash, result: entry.seq === seq ? 'denied' : entry.result };
      last = { ...content, hash: hashAuditEntry(content) };
      return `update audit_logs set result = '${last.result}', prev_hash = '${last.prev_hash}', hash = '${last.hash}'
              where account_id = $account and seq = ${last.seq}`;
    });
    return [...statements, `update audit_heads set hash = '${last.hash}' where account_id = $account`];
  }
});

describe('the audit log and the events', () => {
  let api: TestApi;
  let account: TestAccount;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    account = await api.account();
    await noteMany(api.pool, account.id, 3);
    const sealer = createAuditSealer({ pool: api.pool, logger: createLogger({ process: 'test', level: 'silent' }) });
    sealer.start();
    await vi.waitFor(async () => expect(await unsealed(api.pool)).toBe(0), { timeout: 30_000, interval: 20 });
    await sealer.stop();
    await api.pool.query(
      `insert into events (id, account_id, type, resource_type, resource_id, data)
       values ('evt_1', $1, 'agent.created', 'agent', 'agent_1', '{}')`,
      [account.id],
    );
  });
  afterAll(() => api?.stop());

  /** The tables and all their partitions, this month's and the default one among them. */
  async function tables(): Promise<string[]> {
    const { rows } = await api.pool.query<{ name: string }>(
      `select c.oid::regclass::text as name from pg_class c left join pg_inherits i on i.inhrelid = c.oid
       where coalesce(i.inhparent, c.oid) in ('audit_logs'::regclass, 'events'::regclass) and c.relkind in ('r', 'p')`,
    );
    const names = rows.map(({ name }) => name);
    expect(names.length).toBeGreaterThanOrEqual(8);
    expect(names).toEqual(expect.arrayContaining(['audit_logs', 'audit_logs_other', 'events', 'events_other']));
    return names;
  }

  const attempts = (table: string) => [
    `update ${table} set account_id = account_id`,
    `delete from ${table}`,
    `truncate ${table}`,
    `truncate ${table} cascade`,
  ];

  it('cannot be changed, emptied or laid out anew by the role of the services', async () => {
    for (const table of await tables()) {
      for (const statement of [
        ...attempts(table),
        `insert into ${table} select * from ${table} on conflict (id, created_at) do update set id = 'x'`,
        `merge into ${table} t using (select 1) s on true when matched then delete`,
        `alter table ${table} disable trigger all`,
        `drop table ${table}`,
        ...(/_/.test(table.replace('audit_logs', '')) ? [`select * from ${table}`] : []),
      ])
        await expect(api.pool.query(statement), statement).rejects.toThrow(/permission denied|must be owner/);
    }
    for (const statement of [
      `select make_partition('audit_logs', '2030-01-01')`,
      `alter table audit_logs detach partition audit_logs_other`,
      `update audit_checkpoints set seq = 5`,
      `insert into audit_checkpoints values ('${account.id}', 2, 'x', now())`,
      `delete from audit_checkpoints`,
      `update audit_inbox set result = 'success'`,
      `set session_replication_role = 'replica'`,
    ])
      await expect(api.pool.query(statement), statement).rejects.toThrow(/permission denied|must be owner/);
  });

  it('refuse changes by their owner too, in every partition', async () => {
    const owner = new pg.Client({ connectionString: ownerUrlOf(api.databaseUrl) });
    await owner.connect();
    try {
      const { rows } = await owner.query<{ audit: string; event: string }>(
        `select (select tableoid::regclass::text from audit_logs limit 1) as audit,
                (select tableoid::regclass::text from events limit 1) as event`,
      );
      for (const table of ['audit_logs', 'events', rows[0]!.audit, rows[0]!.event])
        for (const statement of attempts(table))
          await expect(owner.query(statement), statement).rejects.toThrow('are added and never changed');
      // Also where there is nothing to change yet.
      for (const table of await tables())
        await expect(owner.query(`truncate ${table}`), table).rejects.toThrow('are added and never changed');
    } finally {
      await owner.end();
    }
    expect(await wholeChain(api.pool, account.id)).toHaveLength(3);
  });
});
