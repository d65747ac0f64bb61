import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/client.ts';
import { testTokenEnv } from '../../support/token-keys.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import { startCommitCutter } from './commit-cutter.ts';
import { callWith, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';

const path = '/api/v1/api-keys';
const noTemporal = '127.0.0.1:1';

let api: TestApi;
let account: TestAccount;
let owner: TestPerson;
const processes: ApiProcess[] = [];

beforeAll(async () => {
  api = await startTestApi({ temporalAddress: noTemporal });
  account = await api.account();
  owner = await account.person('ann@example.com');
  processes.push(...(await Promise.all([start(), start()])));
});
afterAll(async () => {
  await Promise.all(processes.map((each) => each.kill()));
  await api?.stop();
});

async function start({ databaseUrl = api.databaseUrl } = {}): Promise<ApiProcess> {
  const env = { ...(await testTokenEnv()), PURSER_FAILED_AUTH_PER_MINUTE: '1000' };
  return startApiProcess({ databaseUrl, temporalAddress: noTemporal, env });
}
const atProcess = (url: string) => callWith(url, { authorization: `Bearer ${owner.token}` });
const keyed = (key: string) => ({ 'idempotency-key': key });

/** Keys of this name that there are. */
async function keysOf(name: string): Promise<number> {
  const { rowCount } = await api.pool.query('select from api_keys where account_id = $1 and name = $2', [
    account.id,
    name,
  ]);
  return rowCount!;
}

describe('a deleted key', () => {
  it('is refused by every process at once, by whichever it was deleted', async () => {
    for (const [deleting, using] of [
      [0, 1],
      [1, 0],
      [1, 1],
    ] as const) {
      const { body } = await atProcess(processes[using]!.url)('POST', path, { name: 'short-lived' });
      const calls = processes.map(({ url }) => callWith(url, { 'x-api-key': body.key }));
      for (const call of calls) expect((await call('GET', '/api/v1/agents')).status).toBe(200);
      const deleted = await atProcess(processes[deleting]!.url)('DELETE', `${path}/${body.id}`);
      expect(deleted.status).toBe(200);
      // The very next request, without a pause.
      const after = await Promise.all(calls.map((call) => call('GET', '/api/v1/agents')));
      expect(after.map(({ status }) => status)).toEqual([401, 401]);
    }
  });

  it('passes no request that began after its deletion, while many are under way', async () => {
    const { body } = await owner.call('POST', path, { name: 'busy' });
    const calls = processes.map(({ url }) => callWith(url, { 'x-api-key': body.key }));
    let isDeleted = false;
    const ask = async (call: (typeof calls)[number]) => {
      for (;;) {
        const beganAfter = isDeleted;
        const { status } = await call('GET', '/api/v1/agents');
        if (beganAfter) return status;
      }
    };
    const asking = [...calls, ...calls, ...calls].map(ask);
    await owner.call('DELETE', `${path}/${body.id}`);
    isDeleted = true;
    expect(await Promise.all(asking)).toEqual(asking.map(() => 401));
  });
});

describe('a request for a key, repeated with its Idempotency-Key', () => {
  it('makes one key, and is a conflict ever after, whatever its body', async () => {
    const [first, second] = processes.map(({ url }) => atProcess(url)) as [
      ReturnType<typeof atProcess>,
      ReturnType<typeof atProcess>,
    ];
    const made = await first('POST', path, { name: 'repeated' }, keyed('repeated'));
    expect([made.status, made.headers.get('idempotent-replayed')]).toEqual([200, null]);
    for (const body of [{ name: 'repeated' }, { name: 'other' }]) {
      const again = await second('POST', path, body, keyed('repeated'));
      expect([again.status, again.body.code]).toEqual([409, 'idempotency_key_conflict']);
      expect(again.body.message).toMatch(/shown once and kept nowhere/);
      expect(JSON.stringify(again.body)).not.toContain(made.body.key);
      expect(again.headers.get('idempotent-replayed')).toBeNull();
    }
    expect([await keysOf('repeated'), await keysOf('other')]).toEqual([1, 0]);
  });

  it('twenty times at once at two processes: one key, one answer that has it, nineteen conflicts', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        atProcess(processes[i % 2]!.url)('POST', path, { name: 'at once' }, keyed('at once')),
      ),
    );
    const made = answers.filter(({ status }) => status === 200);
    expect(made).toHaveLength(1);
    for (const { status, body } of answers)
      if (status !== 200) expect([status, body.code]).toEqual([409, 'idempotency_key_conflict']);
    expect(await keysOf('at once')).toBe(1);
    const { rows } = await api.pool.query(
      `select status, answer, resource_id, expires_at > now() + interval '23 hours' as is_kept from idempotency_keys
       where key = 'at once'`,
    );
    expect(rows).toEqual([{ status: null, answer: null, resource_id: made[0]!.body.id, is_kept: true }]);
  });

  it('was refused before: nothing is kept, and the same key serves', async () => {
    const refused = await owner.call('POST', path, { name: '' }, keyed('refused'));
    const late = { name: 'late', expires_at: '2020-01-01T00:00:00Z' };
    const past = await owner.call('POST', path, late, keyed('refused'));
    expect([refused.status, past.status]).toEqual([400, 400]);
    expect((await owner.call('POST', path, { name: 'late' }, keyed('refused'))).status).toBe(200);
  });

  it('of another path or another account is another request', async () => {
    const other = await api.account();
    const stranger = await other.person('bob@example.com');
    for (const by of [owner, stranger])
      expect((await by.call('POST', path, { name: 'mine' }, keyed('shared'))).status).toBe(200);
    const body = { email: 'carl@example.com', role: 'viewer' };
    expect((await owner.call('POST', '/api/v1/account/members', body, keyed('shared'))).status).toBe(200);
  });

  it('whose first answer was lost after it was made is a conflict: one key, which can be seen and deleted', async () => {
    const cutter = await startCommitCutter({ databaseUrl: api.databaseUrl });
    const victim = await start({ databaseUrl: cutter.url });
    try {
      const body = { name: 'lost' };
      cutter.cutNextCommit('after');
      const lost = await atProcess(victim.url)('POST', path, body, keyed('lost'));
      expect(lost.status).toBeGreaterThanOrEqual(500);
      expect(await keysOf('lost')).toBe(1);
      await victim.kill();
      const again = await owner.call('POST', path, body, keyed('lost'));
      expect([again.status, again.body.code]).toEqual([409, 'idempotency_key_conflict']);
      const list = await owner.call('GET', `${path}?page_size=100`);
      const { id } = list.body.data.find(({ name }: { name: string }) => name === 'lost');
      expect((await owner.call('DELETE', `${path}/${id}`)).status).toBe(200);
    } finally {
      await victim.kill();
      await cutter.stop();
    }
  });

  it('whose process was killed before anything was kept makes the key', async () => {
    const victim = await start();
    const held = await api.pool.connect();
    try {
      await held.query('begin');
      await held.query('select from accounts where id = $1 for update', [account.id]);
      const lost = atProcess(victim.url)('POST', path, { name: 'killed' }, keyed('killed')).then(
        () => 'answered',
        () => 'lost',
      );
      await eventually(
        () =>
          api.pool.query(
            `select from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'purser-api'
             and datname = current_database()`,
          ),
        ({ rowCount }) => rowCount === 1,
      );
      await victim.kill();
      expect(await lost).toBe('lost');
    } finally {
      await held.query('rollback');
      held.release();
      await victim.kill();
    }
    // Postgres lets go of what the dead process held when it sees that nobody is there.
    const again = await owner.call('POST', path, { name: 'killed' }, keyed('killed'));
    expect([again.status, await keysOf('killed')]).toEqual([200, 1]);
  });
});
