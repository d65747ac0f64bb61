import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freezeAndNote } from '../../../shared/change-freeze.ts';
import { lockAgent } from '../../../shared/db/agents.ts';
import { bySystem } from '../../../shared/db/audit.ts';
import { blockingFreeze, readFreezes } from '../../../shared/db/freezes.ts';
import { inTransaction } from '../../../shared/db/pool.ts';
import { tellAccounts } from '../../../shared/tell-accounts.ts';
import { eventually } from '../../support/client.ts';
import type { TestTarget } from '../../support/target.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { createAdmin, entriesOf } from './admin-calls.ts';
import { createAgent, payment, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';
import { openSession, startShop } from './x402-calls.ts';

let api: TestApi;
let shop: TestTarget;
let temporal: OwnTemporal;
let account: TestAccount;
let owner: TestPerson;
beforeAll(async () => {
  temporal = await startOwnTemporal();
  [api, shop] = await Promise.all([startTestApi({ temporalAddress: temporal.address }), startShop()]);
});
afterAll(async () => {
  await shop?.stop();
  await api?.stop();
  await temporal?.stop();
});
beforeEach(async () => {
  account = await api.account();
  owner = await account.person('ann@example.com');
});
afterEach(() => api.pool.query('delete from freezes; delete from freeze_notes'));

const { run } = createAdmin({ databaseUrl: () => api.databaseUrl });
async function admin(...args: string[]) {
  const { code, stdout, stderr } = await run(args);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return JSON.parse(stdout);
}
const set = (body: unknown, by: Pick<TestPerson, 'call'> = owner) => by.call('PUT', '/api/v1/account', body);
const setAgent = (id: string, body: unknown, by: Pick<TestPerson, 'call'> = owner) =>
  by.call('PUT', `/api/v1/agents/${id}`, body);
const entries = async () =>
  (await entriesOf(api.pool, account.id))
    .filter(({ action }) => /\.(un)?frozen$/.test(action))
    .map(({ action, resource_id, actor_id, changes }) => ({ action, resource_id, actor_id, changes }));
async function events() {
  const { rows } = await api.pool.query(
    `select type, resource_type, resource_id, agent_id, data from events where account_id = $1 and type like '%frozen'
     order by created_at, id`,
    [account.id],
  );
  return rows;
}

describe('a frozen account', () => {
  it('is shown, told of, and lifted by a person of it', async () => {
    const { version } = await readFreezes(api.pool);
    const { status, body } = await set({ frozen: true, freeze_reason: 'odd payments' });
    expect(status).toBe(200);
    const freeze = { scope: 'account', reason: 'odd payments', frozen_by: owner.userId, frozen_at: expect.any(String) };
    expect([body.frozen, body.freeze]).toEqual([true, freeze]);
    expect((await account.call('GET', '/api/v1/account')).body.freeze).toEqual(body.freeze);
    expect((await readFreezes(api.pool)).version).toBeGreaterThan(version);
    expect((await set({ frozen: true })).body.freeze.reason).toBe('odd payments');

    const agent = await createAgent(account);
    const shown = (await account.call('GET', `/api/v1/agents/${agent.id}`)).body;
    expect([shown.frozen, shown.freeze]).toEqual([true, body.freeze]);
    expect((await account.call('GET', '/api/v1/agents')).body.data[0].freeze).toEqual(body.freeze);

    expect((await set({ frozen: false })).body).toMatchObject({ frozen: false, freeze: null });
    expect((await set({ frozen: false })).status).toBe(200);
    const about = { resource_id: account.id, actor_id: owner.userId };
    expect(await entries()).toEqual([
      { action: 'account.frozen', ...about, changes: { before: null, after: body.freeze } },
      { action: 'account.unfrozen', ...about, changes: { before: body.freeze, after: null } },
    ]);
    const data = { account_id: account.id, agent_id: null, ...body.freeze };
    const event = { resource_type: 'account', resource_id: account.id, agent_id: null, data };
    expect(await events()).toEqual([
      { type: 'account.frozen', ...event },
      { type: 'account.unfrozen', ...event },
    ]);
  });

  it('takes payments, and says that they wait', async () => {
    const agent = await createAgent(account);
    await set({ frozen: true, freeze_reason: 'odd payments' });
    const { status, body } = await account.call('POST', '/api/v1/transactions', payment(agent.id));
    expect([status, body.status]).toEqual([200, 'pending']);
    expect(body.notice).toMatch(
      /^Account acct_\w+ was frozen by user_\w+ at .*Z \(odd payments\): nothing new is signed/,
    );
    await set({ frozen: false });
    expect((await account.call('POST', '/api/v1/transactions', payment(agent.id))).body.notice).toBeNull();
  });

  it('pays nothing out of an x402 session, and charges nothing', async () => {
    const agent = await createAgent(account);
    const session = await openSession(api, { account, agentId: agent.id });
    const pay = () =>
      account.call('POST', `/api/v1/x402/sessions/${session.id}/pay`, { target_url: `${shop.url}/10000` });
    await setAgent(agent.id, { frozen: true });
    const asked = await pay();
    expect([asked.status, asked.body.code]).toEqual([400, 'agent_inactive']);
    expect(asked.body.message).toMatch(/cannot pay\. Agent agent_\w+ was frozen by user_/);
    expect(asked.body.details.freeze.scope).toBe('agent');
    const { rows } = await api.pool.query('select spent_minor from x402_sessions where id = $1', [session.id]);
    expect(rows).toEqual([{ spent_minor: '0' }]);
    await setAgent(agent.id, { frozen: false });
    expect((await pay()).status).toBe(200);
  });

  it('is not for API keys, nor for roles that change nothing', async () => {
    expect((await set({ frozen: true }, account)).status).toBe(403);
    for (const role of ['viewer', 'approver'] as const)
      expect((await set({ frozen: true }, await account.person(`${role}@example.com`, { role }))).status).toBe(403);
    expect(await entries()).toEqual([]);
  });

  it.each([
    [{ freeze_reason: 'why' }, 'freeze_reason'],
    [{ frozen: false, freeze_reason: 'why' }, 'freeze_reason'],
    [{ frozen: 'yes' }, 'frozen'],
    [{ frozen: true, freeze_reason: '' }, 'freeze_reason'],
    [{ frozen: true, freeze_reason: 'x'.repeat(257) }, 'freeze_reason'],
  ])('cannot be made by %j', async (body, param) => {
    const agent = await createAgent(account);
    for (const answer of [await set(body), await setAgent(agent.id, body)])
      expect([answer.status, answer.body.code, answer.body.param]).toEqual([400, 'invalid_request', param]);
    expect(await entries()).toEqual([]);
  });
});

describe('a frozen agent', () => {
  it('is frozen by a key as well, and lifted by people alone', async () => {
    const agent = await createAgent(account);
    const frozen = await setAgent(agent.id, { frozen: true, freeze_reason: 'it pays whom it likes' }, account);
    expect([frozen.status, frozen.body.frozen, frozen.body.freeze.scope]).toEqual([200, true, 'agent']);
    expect(frozen.body.freeze.frozen_by).toMatch(/^key_/);
    const refused = await setAgent(agent.id, { frozen: false }, account);
    expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_permissions']);
    expect((await setAgent(agent.id, { frozen: false, agent_name: 'thawed' })).body).toMatchObject({
      frozen: false,
      agent_name: 'thawed',
    });
    expect((await entries()).map(({ action, resource_id }) => [action, resource_id])).toEqual([
      ['agent.frozen', agent.id],
      ['agent.unfrozen', agent.id],
    ]);
    expect((await events()).map(({ type, agent_id }) => [type, agent_id])).toEqual([
      ['agent.frozen', agent.id],
      ['agent.unfrozen', agent.id],
    ]);
  });

  /** As a payment does that is judged: it holds its agent, and then asks whether something is frozen. */
  async function judged(agentId: string, meanwhile: () => Promise<unknown>) {
    await inTransaction(api.pool, async (db) => {
      await lockAgent(db, { id: agentId });
      await meanwhile();
      await blockingFreeze(db, { accountId: account.id, agentId });
    });
  }

  it('need not wait for a payment of it that is being judged', async () => {
    const agent = await createAgent(account);
    for (const frozen of [true, false])
      await judged(agent.id, async () => expect((await setAgent(agent.id, { frozen })).body.frozen).toBe(frozen));
  });

  it('is renamed and frozen after the payment of it that is being judged, which need not wait for that', async () => {
    const agent = await createAgent(account);
    let renamed: ReturnType<typeof setAgent> | undefined;
    await judged(agent.id, async () => {
      renamed = setAgent(agent.id, { frozen: true, agent_name: 'renamed' });
      const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      await eventually(
        async () => (await api.pool.query(waiting)).rowCount,
        (count) => count === 1,
        { timeoutMs: 20_000 },
      );
    });
    expect(await renamed).toMatchObject({ status: 200, body: { frozen: true, agent_name: 'renamed' } });
  });
});

describe('npm run admin -- freeze', () => {
  it('is lifted by operators alone, also where somebody of the account froze before', async () => {
    const agent = await createAgent(account);
    await set({ frozen: true });
    const frozen = await admin('freeze', 'account', '--id', account.id, '--reason', 'we look into it', '--wait', '0');
    expect(frozen).toMatchObject({
      frozen: {
        account_id: account.id,
        agent_id: null,
        scope: 'account',
        reason: 'we look into it',
        frozen_by: 'operator',
      },
      signers: { confirmed: [], missing: [] },
    });
    await admin('freeze', 'agent', '--id', agent.id, '--wait', '0');
    for (const answer of [await set({ frozen: false }), await setAgent(agent.id, { frozen: false })]) {
      expect([answer.status, answer.body.code]).toEqual([403, 'insufficient_permissions']);
      expect(answer.body.message).toMatch(/frozen by whoever runs this installation.*only they lift that/);
    }
    expect((await admin('frozen')).frozen).toHaveLength(2);
    await admin('unfreeze', 'account', '--id', account.id, '--wait', '0');
    expect((await set({ name: 'x' })).body.frozen).toBe(false);
    expect((await admin('unfreeze', 'agent', '--id', agent.id, '--wait', '0')).unfrozen.scope).toBe('agent');
    expect((await admin('unfreeze', 'agent', '--id', agent.id, '--wait', '0')).next).toMatch(/nothing to lift/);
  });

  it('all is shown by /readyz and everywhere, and every account is told once', async () => {
    const agent = await createAgent(account);
    const other = await api.account();
    await admin('freeze', 'all', '--reason', 'night', '--wait', '0');
    const ready = (await (await fetch(`${api.url}/readyz`)).json()) as { frozen: boolean };
    expect(ready.frozen).toBe(true);
    expect((await set({ frozen: false })).body).toMatchObject({ frozen: true, freeze: { scope: 'installation' } });
    expect((await account.call('GET', `/api/v1/agents/${agent.id}`)).body.freeze.scope).toBe('installation');
    await admin('unfreeze', 'all', '--wait', '0');
    expect((await entries()).map(({ action, actor_id }) => [action, actor_id])).toEqual([
      ['account.frozen', 'operator'],
      ['account.unfrozen', 'operator'],
    ]);
    expect((await events()).map(({ type, data }) => [type, data.scope, data.reason])).toEqual([
      ['account.frozen', 'installation', 'night'],
      ['account.unfrozen', 'installation', 'night'],
    ]);
    expect((await entriesOf(api.pool, other.id)).filter(({ action }) => action === 'account.frozen')).toHaveLength(1);
  });

  it('all by whoever died right after: accounts are told by others, once, however many do it', async () => {
    await inTransaction(api.pool, (db) => freezeAndNote(db, { scope: 'installation', reason: 'x', acting: bySystem }));
    expect(await events()).toEqual([]);
    await Promise.all(Array.from({ length: 4 }, () => tellAccounts(api.pool)));
    await tellAccounts(api.pool);
    expect((await events()).map(({ type }) => type)).toEqual(['account.frozen']);
    expect((await entries()).map(({ action }) => action)).toEqual(['account.frozen']);
  });

  it.each([
    [['freeze', 'account', '--id', 'acct_00000000000000000000000000'], /There is no account/],
    [['freeze', 'agent', '--id', 'agent_00000000000000000000000000'], /There is no agent/],
    [['freeze', 'agent', '--id', 'acct_1'], /begins with agent_/],
    [['freeze', 'agent'], /--id is missing/],
    [['freeze', 'all', '--wait', 'long'], /--wait must be whole seconds/],
    [['freeze', 'all', '--id', 'x'], /Unknown option/],
    [['freeze', 'all', '--reason', ''], /--reason is empty/],
  ])('%j is refused', async (args, message) => {
    const { code, stderr } = await run(args);
    expect([code > 0, stderr]).toEqual([true, expect.stringMatching(message)]);
  });
});
