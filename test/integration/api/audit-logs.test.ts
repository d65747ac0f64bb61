import { connect } from 'node:net';
import pino from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Loop } from '../../../activities/loop.ts';
import { createAuditSealer } from '../../../activities/seal-audit.ts';
import { type AuditEntry, verifyChain } from '../../../shared/audit-chain.ts';
import type { Acting } from '../../../shared/db/audit.ts';
import { createLogger } from '../../../shared/log.ts';
import { note, noteMany, unsealed, wholeChain } from '../../support/audit-rows.ts';
import { asSuperuser } from '../../support/tamper.ts';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';

const path = '/api/v1/audit-logs';
const log = createLogger({ process: 'test', level: 'silent' });
const zeros = '0'.repeat(64);

const byPerson: Acting = {
  actor: { type: 'user', id: 'idp|7 ops@example.com', name: 'ops@example.com' },
  ipAddress: '203.0.113.7',
  userAgent: 'curl/8.9',
  requestId: 'request 1',
};

describe('the audit log', () => {
  let api: TestApi;
  let sealer: Loop;
  /** Lines that tell of requests which are over. */
  const requests: string[] = [];

  beforeAll(async () => {
    const requestLog = pino({ level: 'info' }, { write: (line) => void requests.push(line) });
    api = await startTestApi({ temporalAddress: '127.0.0.1:1', log: requestLog });
    sealer = createAuditSealer({ pool: api.pool, logger: log });
    sealer.start();
  });
  afterAll(async () => {
    await sealer?.stop();
    await api?.stop();
  });

  const allSealed = () =>
    vi.waitFor(async () => expect(await unsealed(api.pool)).toBe(0), { timeout: 60_000, interval: 20 });
  /** What retention does: the first entries go, and leave where the chain goes on from. */
  const takeAway = (accountId: string, count: number) =>
    asSuperuser(api.databaseUrl, async (client) => {
      await client.query('begin');
      await client.query(
        `insert into audit_checkpoints select account_id, seq, hash, created_at from audit_logs
         where account_id = $1 and seq = $2`,
        [accountId, count],
      );
      await client.query('delete from audit_logs where account_id = $1 and seq <= $2', [accountId, count]);
      await client.query('commit');
    });
  const get = async (account: TestAccount, rest = '') => (await account.call('GET', path + rest)).body;

  async function exported(account: TestAccount, query = ''): Promise<AuditEntry[]> {
    const response = await fetch(`${api.url}${path}/export${query}`, { headers: { 'x-api-key': account.key } });
    expect(response.headers.get('content-type')).toBe('application/x-ndjson');
    const lines = (await response.text()).split('\n');
    expect(lines.pop()).toBe('');
    return lines.map((line) => JSON.parse(line) as AuditEntry);
  }

  describe('as a list', () => {
    let account: TestAccount;
    let entries: AuditEntry[];

    beforeAll(async () => {
      account = await api.account();
      const write = (more: Parameters<typeof note>[2]) => note(api.pool, account.id, more);
      await write({ acting: byPerson, changes: { before: { a: 1 }, after: { a: 2 } }, agentId: 'agent_1' });
      await write({
        action: 'transaction.evaluated',
        resourceType: 'transaction',
        resourceId: 'tx_1',
        agentId: 'agent_1',
      });
      await write({
        action: 'transaction.evaluated',
        resourceType: 'transaction',
        resourceId: 'tx_2',
        agentId: 'agent_1',
        result: 'denied',
      });
      await write({ action: 'credential.denied', resourceType: 'api_key', resourceId: 'key_1', result: 'denied' });
      await write({ agentId: 'agent_2', result: 'error' });
      await note(api.pool, (await api.account()).id);
      await allSealed();
      entries = await wholeChain(api.pool, account.id);
    });

    it('shows the entries of the account and no others, newest first', async () => {
      const { data, total, has_more } = await get(account);
      expect(data.toSorted((a: AuditEntry, b: AuditEntry) => a.seq - b.seq)).toEqual(entries);
      expect({ total, has_more }).toEqual({ total: 5, has_more: false });
      const instants = data.map(({ created_at }: AuditEntry) => created_at);
      expect(instants).toEqual(instants.toSorted().toReversed());
      expect(entries[0]).toMatchObject({
        actor: { type: 'user', id: 'idp|7 ops@example.com', name: 'ops@example.com' },
        ip_address: '203.0.113.7',
        user_agent: 'curl/8.9',
        request_id: 'request 1',
        changes: { before: { a: 1 }, after: { a: 2 } },
      });
    });

    it('comes in pages that do not overlap', async () => {
      const pages = await Promise.all([1, 2, 3].map((number) => get(account, `?page_size=2&page_num=${number}`)));
      expect(pages.map(({ total, has_more }) => [total, has_more])).toEqual([
        [5, true],
        [5, true],
        [5, false],
      ]);
      const seqs = pages.flatMap(({ data }) => data.map(({ seq }: AuditEntry) => seq));
      expect(seqs.toSorted()).toEqual([1, 2, 3, 4, 5]);
    });

    it.each([
      ['action=transaction.evaluated', [2, 3]],
      ['action=policy.deleted', []],
      [`actor_id=${encodeURIComponent('idp|7 ops@example.com')}`, [1]],
      ['resource_type=transaction', [2, 3]],
      ['resource_id=tx_2', [3]],
      ['agent_id=agent_1', [1, 2, 3]],
      ['agent_id=agent_of_nobody', []],
      ['result=denied', [3, 4]],
      ['agent_id=agent_1&result=denied', [3]],
      ['action=transaction.evaluated&result=success', [2]],
      ['agent_id=agent_1&action=policy.updated&resource_type=policy&resource_id=pol_1', [1]],
    ])('is filtered by %s', async (query, expected) => {
      const { data, total } = await get(account, `?${query}`);
      expect(data.map(({ seq }: AuditEntry) => seq).toSorted()).toEqual(expected);
      expect(total).toBe(expected.length);
    });

    it('is cut out by time, the first instant included and the last one not', async () => {
      const other = await api.account();
      await noteMany(api.pool, other.id, 5);
      await allSealed();
      const at = (await wholeChain(api.pool, other.id)).map(({ created_at }) => created_at);
      const { data, total } = await get(other, `?from=${at[1]}&to=${at[3]}`);
      expect(data.map(({ seq }: AuditEntry) => seq)).toEqual([3, 2]);
      expect(total).toBe(2);
    });

    it.each([
      ['result=maybe', 'result'],
      ['action=Policy', 'action'],
      ['actor_id=a%00b', 'actor_id'],
      ['actor_id=', 'actor_id'],
      ['resource_type=a%20b', 'resource_type'],
      ['resource_id=a%00', 'resource_id'],
      ['agent_id=%27', 'agent_id'],
      ['from=yesterday', 'from'],
      ['from=2026-03-02T00:00:00Z&to=2026-03-01T00:00:00Z', 'from'],
      ['page_size=1000', 'page_size'],
      ['order=asc', 'order'],
    ])('refuses %s', async (query, param) => {
      const { status, body } = await account.call('GET', `${path}?${query}`);
      expect([status, body.param]).toEqual([400, param]);
    });
  });

  describe('its head', () => {
    it('is nothing before there is an entry', async () => {
      expect(await get(await api.account(), '/head')).toEqual({
        seq: 0,
        hash: zeros,
        created_at: null,
        sealed_at: null,
        unsealed: { count: 0, oldest_created_at: null },
      });
    });

    it('is the last entry that has its place, and says what waits and since when', async () => {
      const account = await api.account();
      await noteMany(api.pool, account.id, 3);
      await allSealed();
      await sealer.stop();
      try {
        await note(api.pool, account.id);
        await note(api.pool, account.id);
        const { rows } = await api.pool.query<{ at: Date }>(
          'select min(created_at) as at from audit_inbox where account_id = $1',
          [account.id],
        );
        const last = (await wholeChain(api.pool, account.id)).at(-1)!;
        expect(await get(account, '/head')).toEqual({
          seq: 3,
          hash: last.hash,
          created_at: last.created_at,
          sealed_at: expect.stringMatching(/Z$/),
          unsealed: { count: 2, oldest_created_at: rows[0]!.at.toISOString() },
        });
      } finally {
        sealer = createAuditSealer({ pool: api.pool, logger: log });
        sealer.start();
      }
    });
  });

  describe('verified', () => {
    let account: TestAccount;
    let entries: AuditEntry[];

    beforeAll(async () => {
      account = await api.account();
      await noteMany(api.pool, account.id, 1_234);
      await allSealed();
      entries = await wholeChain(api.pool, account.id);
    });

    it('is valid to its head, also while it is empty', async () => {
      expect(await get(account, '/verify')).toEqual({
        valid: true,
        checked: 1_234,
        head_hash: entries.at(-1)!.hash,
        broken_at: null,
        reason: null,
        from_seq: 1,
        to_seq: 1_234,
        complete: true,
        next_seq: null,
        checkpoint: null,
      });
      expect(await get(await api.account(), '/verify')).toMatchObject({
        valid: true,
        checked: 0,
        head_hash: zeros,
        complete: true,
      });
    });

    it('in parts comes to the same', async () => {
      const parts = [];
      let query = '?limit=500';
      for (;;) {
        const part = await get(account, `/verify${query}`);
        parts.push([part.valid, part.from_seq, part.to_seq, part.checked, part.complete, part.next_seq]);
        expect(part.head_hash).toBe(entries[part.to_seq - 1]!.hash);
        if (part.next_seq === null) break;
        query = `?limit=500&from_seq=${part.next_seq}`;
      }
      expect(parts).toEqual([
        [true, 1, 500, 500, false, 501],
        [true, 501, 1_000, 500, false, 1_001],
        [true, 1_001, 1_234, 234, true, null],
      ]);
      expect(await get(account, '/verify?from_seq=1235')).toMatchObject({ valid: true, checked: 0, complete: true });
    });

    it('goes through a head that was noted, wherever it lies', async () => {
      for (const seq of [1, 700, 1_234]) {
        const noted = `head_seq=${seq}&head_hash=${entries[seq - 1]!.hash}`;
        const other = `head_seq=${seq}&head_hash=${entries[seq - 2]?.hash ?? 'f'.repeat(64)}`;
        expect(await get(account, `/verify?${noted}`)).toMatchObject({ valid: true });
        expect(await get(account, `/verify?${other}`)).toMatchObject({
          valid: false,
          reason: 'rewritten',
          broken_at: seq,
          complete: false,
        });
      }
      const beyond = `head_seq=2000&head_hash=${zeros}`;
      const cutOff = { valid: false, reason: 'cut_off', broken_at: 1_235 };
      expect(await get(account, `/verify?${beyond}`)).toMatchObject(cutOff);
      expect(await get(account, `/verify?from_seq=1500&${beyond}`)).toMatchObject(cutOff);
      expect(await get(account, `/verify?limit=10&${beyond}`)).toMatchObject({ valid: true, next_seq: 11 });
    });

    it('goes on from where retention has left it', async () => {
      const kept = await api.account();
      await noteMany(api.pool, kept.id, 20);
      await allSealed();
      const chain = await wholeChain(api.pool, kept.id);
      await takeAway(kept.id, 12);
      const checkpoint = { seq: 12, hash: chain[11]!.hash };
      expect(await get(kept, '/verify')).toMatchObject({ valid: true, checked: 8, from_seq: 13, checkpoint });
      expect(await get(kept, `/verify?head_seq=12&head_hash=${checkpoint.hash}`)).toMatchObject({ valid: true });
      expect(await get(kept, `/verify?head_seq=12&head_hash=${zeros}`)).toMatchObject({
        reason: 'rewritten',
        broken_at: 12,
      });
      for (const [query, param] of [
        [`head_seq=11&head_hash=${chain[10]!.hash}`, 'head_seq'],
        ['from_seq=12', 'from_seq'],
      ]) {
        const { status, body } = await kept.call('GET', `${path}/verify?${query}`);
        expect([status, body.param]).toEqual([400, param]);
      }
      await note(api.pool, kept.id);
      await allSealed();
      expect(await get(kept, '/verify')).toMatchObject({ valid: true, checked: 9 });
      expect((await exported(kept)).map(({ seq }) => seq)).toEqual([13, 14, 15, 16, 17, 18, 19, 20, 21]);
    });

    it('takes no entry for missing that retention takes away meanwhile', async () => {
      const kept = await api.account();
      await noteMany(api.pool, kept.id, 20);
      await allSealed();
      const query = api.pool.query.bind(api.pool) as (...args: unknown[]) => Promise<unknown>;
      let isGone = false;
      const reads = vi.spyOn(api.pool, 'query').mockImplementation((async (...args: unknown[]) => {
        if (!isGone && String(args[0]).includes('order by seq')) {
          isGone = true;
          await takeAway(kept.id, 12);
        }
        return query(...args);
      }) as never);
      try {
        expect(await get(kept, '/verify')).toMatchObject({ valid: true, checked: 8, checkpoint: { seq: 12 } });
        expect(isGone).toBe(true);
      } finally {
        reads.mockRestore();
      }
    });

    it.each([
      ['from_seq=0', 'from_seq'],
      ['from_seq=1236', 'from_seq'],
      ['limit=100001', 'limit'],
      ['limit=-1', 'limit'],
      ['head_seq=1', 'head_hash'],
      [`head_hash=${zeros}`, 'head_seq'],
      ['head_seq=1&head_hash=abc', 'head_hash'],
    ])('refuses %s', async (query, param) => {
      const { status, body } = await account.call('GET', `${path}/verify?${query}`);
      expect([status, body.param]).toEqual([400, param]);
    });

    it('is exported whole, every line an entry', async () => {
      expect(await exported(account)).toEqual(entries);
      expect(await exported(account, '?from_seq=1000')).toEqual(entries.slice(999));
      expect(await exported(account, '?from_seq=3&to_seq=5')).toEqual(entries.slice(2, 5));
      expect(await exported(account, '?from_seq=2000')).toEqual([]);
      expect(await verifyChain(await exported(account))).toMatchObject({ valid: true, checked: 1_234 });
      expect(await exported(await api.account())).toEqual([]);
    });

    it('has no lines for HEAD, and refuses a range that is none', async () => {
      const head = await fetch(`${api.url}${path}/export`, { method: 'HEAD', headers: { 'x-api-key': account.key } });
      expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
      for (const query of ['from_seq=5&to_seq=4', 'from_seq=x', 'to_seq=0']) {
        const { status } = await account.call('GET', `${path}/export?${query}`);
        expect(status).toBe(400);
      }
    });
  });

  describe('exported to a client that does not read', () => {
    it('is read from the database only as fast as the client takes it, and not at all once it has left', async () => {
      const account = await api.account();
      const wide = 'x'.repeat(2_000);
      await api.pool.query(
        `insert into audit_inbox (id, account_id, action, actor_type, resource_type, result, metadata)
         select 'aud_' || gen_random_uuid(), $1, 'policy.updated', 'system', 'policy', 'success',
                json_build_object('wide', $2::text)
         from generate_series(1, 30000)`,
        [account.id, wide],
      );
      await allSealed();
      const reads = vi.spyOn(api.pool, 'query');
      const batches = () => reads.mock.calls.filter(([text]) => String(text).includes('order by seq')).length;
      const socket = connect(Number(new URL(api.url).port), '127.0.0.1');
      try {
        socket.pause();
        socket.write(`GET ${path}/export HTTP/1.1\r\nHost: x\r\nX-API-Key: ${account.key}\r\n\r\n`);
        let seen = 0;
        const stands = () => {
          const before = seen;
          seen = batches();
          return seen > 0 && seen === before;
        };
        await vi.waitUntil(stands, { timeout: 120_000, interval: 1_500 });
        // 60 MB in all; what is on its way is what the sockets hold.
        expect(seen).toBeLessThan(100);
        expect(api.pool.totalCount - api.pool.idleCount).toBe(0);
        socket.destroy();
        const left = () => requests.some((line) => line.includes('/export') && line.includes('"complete":false'));
        await vi.waitUntil(left, { timeout: 120_000 });
        expect(await get(account, '/head')).toMatchObject({ seq: 30_000 });
        expect(batches()).toBe(seen);
      } finally {
        socket.destroy();
        reads.mockRestore();
      }
    });
  });
});
