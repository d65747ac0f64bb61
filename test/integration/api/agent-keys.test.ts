import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Access, access } from '../../../api/access.ts';
import type { Pool } from '../../../shared/db/pool.ts';
import { type Operation, operationsOf, pathWith } from '../../support/operations.ts';
import type { TestTarget } from '../../support/target.ts';
import { limitedKey, makeAgentWithThings, makeThingsOfAccount, type Things } from './access-world.ts';
import { auditedEndpoints } from './audited-endpoints.ts';
import { ann, type Prepared, type World } from './audited-world.ts';
import { createAgent } from './harness.ts';
import { startApiWithChain } from './with-chain.ts';
import { startShop } from './x402-calls.ts';

type Call = World['account']['call'];

const table = Object.entries<Access>(access).flatMap(([id, row]) => (row.by === 'caller' ? [[id, row] as const] : []));

/** Lists, which show what is the agent's own. */
const lists: Readonly<Record<string, string>> = {
  listAgents: 'agents',
  listTransactions: 'transactions',
  listApprovals: 'approvals',
  listPolicies: 'policies',
  listX402Sessions: 'x402/sessions',
};
/** What is the same for all agents. */
const ofNoAgent = ['listX402FeeTiers', 'checkX402Target'];

/** Everything that limits payments, or says who may do what. Approvals count by what they are asked and answered. */
const guards = ['accounts', 'agents', 'api_keys', 'approvals', 'members', 'policies', 'policy_templates', 'webhooks'];

/** Their rows by id, but for when a key was used. */
async function readGuards(pool: Pool): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const name of guards) {
    const text = `select id, (to_jsonb(t) - 'last_used_at')::text as row from ${name} t`;
    const { rows } = await pool.query<{ id: string; row: string }>(text);
    for (const { id, row } of rows) found.set(id, row);
  }
  return found;
}

describe('a key of one agent', () => {
  let world: World;
  let shop: TestTarget;
  let operations: Operation[];
  /** Of the account, and of two agents of it. */
  let common: Things;
  let own: Things & { agents: string };
  let other: Things & { agents: string };

  beforeAll(async () => {
    const chain = await startApiWithChain({ hasDead: false });
    shop = await startShop({ asset: chain.local.usdcAddress });
    const account = await chain.api.account();
    const person = await account.person(ann);
    world = { ...chain, account, keyId: '', person, shopUrl: shop.url, secrets: [] };
    operations = await operationsOf(chain.api);
    common = await makeThingsOfAccount(chain.api, account);
    [own, other] = [await makeAgentWithThings(chain.api, account), await makeAgentWithThings(chain.api, account)];
  });
  afterAll(async () => {
    await shop?.stop();
    await world?.stop();
  });

  const keyOf = async (agentId: string): Promise<Call> =>
    (await limitedKey(world.api, { accountId: world.account.id, agentId })).call;

  /** Which agent a request is about; one that it has nothing to do with where it is about none. */
  async function agentOf({ ids = [], body }: Prepared): Promise<string> {
    const named = (body as { agent_id?: string } | undefined)?.agent_id;
    if (named !== undefined) return named;
    const [id = ''] = ids;
    if (id.startsWith('agent_')) return id;
    const tables = { tx: 'transactions', apr: 'approvals', pol: 'policies', sess: 'x402_sessions' };
    const name = tables[id.split('_')[0] as keyof typeof tables];
    if (name === undefined) return own.agents;
    const { rows } = await world.api.pool.query(`select agent_id from ${name} where id = $1`, [id]);
    return rows[0].agent_id;
  }

  /** A request that succeeds by whoever may make it, and about which agent it is. */
  async function prepare({ id, method, path }: Operation) {
    const prepared = method === 'GET' ? undefined : await auditedEndpoints[id]?.prepare(world);
    if (!prepared) return { path: pathWith({ path }, { ...common, ...own }), agentId: own.agents };
    const filled = (prepared.ids ?? []).reduce((text, given) => text.replace(/\{\w+\}/, given), path);
    return { path: filled, body: prepared.body, agentId: await agentOf(prepared) };
  }

  /** Status and code of a call, and the member at fault. */
  const outcome = ({ status, body }: Awaited<ReturnType<Call>>) =>
    status === 200 ? [200] : [status, body.code, ...(body.param === undefined ? [] : [body.param])];
  const forbidden = [403, 'insufficient_permissions'];
  /** What another agent is told. */
  const toStranger = ({ id, path }: Operation) => {
    if (Object.hasOwn(lists, id) || ofNoAgent.includes(id)) return [200];
    return path.includes('{') ? [404, 'resource_not_found'] : [400, 'invalid_request', 'agent_id'];
  };

  it.each(table)('loosens no guard by %s, and does nothing there for another agent', async (id, row) => {
    const operation = operations.find((each) => each.id === id)!;
    const { method } = operation;
    const { path, body, agentId } = await prepare(operation);
    const [mine, strangers] = [await keyOf(agentId), await keyOf((await createAgent(world.account)).id)];
    const headers: Record<string, string> = method === 'POST' ? { 'idempotency-key': id } : {};
    const before = await readGuards(world.api.pool);

    const refused = row.agentKeys ? toStranger(operation) : forbidden;
    expect(outcome(await strangers(method, path, body))).toEqual(refused);
    const done = await mine(method, path, body, headers);
    expect(outcome(done)).toEqual(row.agentKeys ? [200] : forbidden);
    const after = await readGuards(world.api.pool);
    for (const [name, guard] of before) expect([name, after.get(name)]).toEqual([name, guard]);
    const added = [...after.keys()].filter((name) => !before.has(name) && !name.startsWith('apr_'));
    expect(added).toEqual([]);

    if (method !== 'POST') return;
    // Whoever may is answered, or answered again; and nobody else, although there is an answer.
    const { call } = row.scope === null ? await world.account.person(ann) : world.account;
    expect(outcome(await call(method, path, body, headers))).toEqual([200]);
    const again = [await mine(method, path, body, headers), await strangers(method, path, body, headers)];
    expect(again.map(outcome)).toEqual([row.agentKeys ? [200] : forbidden, refused]);
    if (row.agentKeys) expect(again[0]!.body).toEqual(done.body);
    const viewer = await world.account.person('viewer@example.com', { role: 'viewer' });
    const { status } = await viewer.call(method, path, body, headers);
    expect(status === 403).toBe(row.role !== 'viewer');
  });

  it.each(Object.values(lists))('lists and counts of %s what is its own', async (kind) => {
    const call = await keyOf(own.agents);
    const all = (await world.account.call('GET', `/api/v1/${kind}?page_size=100`)).body;
    const isOwn = (each: { id: string; agent_id?: string }) => (each.agent_id ?? each.id) === own.agents;
    const mine = all.data.filter(isOwn);
    expect(mine.length).toBeGreaterThan(0);
    expect(all.total).toBeGreaterThan(mine.length);
    const { body } = await call('GET', `/api/v1/${kind}?page_size=100`);
    expect(body).toEqual({ data: mine, total: mine.length, has_more: false });
    expect((await call('GET', `/api/v1/${kind}?page_size=1&page_num=${mine.length + 1}`)).body).toEqual({
      data: [],
      total: mine.length,
      has_more: false,
    });
    if (kind === 'agents') return;
    expect((await call('GET', `/api/v1/${kind}?agent_id=${own.agents}`)).body).toEqual(body);
    for (const strange of [other.agents, 'agent_00000000000000000000000000', 'x', '']) {
      const named = await call('GET', `/api/v1/${kind}?agent_id=${strange}`);
      expect([strange, ...outcome(named)]).toEqual([strange, 400, 'invalid_request', 'agent_id']);
    }
  });

  it("pays out of no other agent's session or wallet, by whatever id it is named", async () => {
    const call = await keyOf(own.agents);
    const paths = [`/x402/sessions/${own.sessions}/payments/${other.payments}`, `/x402/sessions/${other.sessions}`];
    for (const path of paths) expect((await call('GET', `/api/v1${path}`)).status).toBe(404);
    const { body } = await world.account.call('GET', `/api/v1/agents/${other.agents}`);
    const sent = { direction: 'outbound', type: 'transfer', amount: '1', token: 'USDC', chain: 'eip155:31337' };
    const to = '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF';
    const foreign = { ...sent, agent_id: own.agents, from_address: body.wallet.address, to_address: to };
    expect(outcome(await call('POST', '/api/v1/transactions', foreign))).toEqual([
      400,
      'invalid_address',
      'from_address',
    ]);
  });
});
