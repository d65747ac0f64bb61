import { Client, Connection } from '@temporalio/client';
import { type Address, createTestClient as createNodeClient, createPublicClient, http, parseEther } from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { anvil } from 'viem/chains';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';

const local = 'eip155:31337';
const timeoutMs = 180_000;

let stack: OwnStack;
let client: TestClient;
let temporal: Client;

beforeAll(async () => {
  // The schedule's own looks would come between ours.
  stack = await startOwnStack({ workers: 2, env: { PURSER_GAS_CHECK_MINUTES: '1440' } });
  client = createTestClient(stack);
  temporal = new Client({ connection: await Connection.connect({ address: stack.temporalAddress }) });
});
afterAll(async () => {
  await temporal?.connection.close();
  await stack?.stop();
});

const chain = () => createPublicClient({ transport: http(stack.rpcUrl), cacheTime: 0 });
const node = () => createNodeClient({ mode: 'anvil', chain: anvil, transport: http(stack.rpcUrl) });
const holds = (address: Address) => chain().getBalance({ address });

async function newAgent(name: string): Promise<{ id: string; address: Address }> {
  const { status, body } = await client.post('/agents', { agent_name: name, chain: local });
  expect(status).toBe(200);
  return { id: body.id, address: body.wallet.address };
}
/** One look of the schedule, from its beginning to its end. */
async function look(): Promise<void> {
  const handle = temporal.schedule.getHandle('watch-gas');
  const before = (await handle.describe()).info.numActionsTaken;
  await handle.trigger();
  const { info } = await eventually(
    () => handle.describe(),
    (seen) => seen.info.numActionsTaken > before,
    { timeoutMs },
  );
  const { workflowId, firstExecutionRunId } = info.recentActions.at(-1)!.action.workflow;
  await temporal.workflow.getHandle(workflowId, firstExecutionRunId).result();
}
const sentBy = async (agentId: string) => (await client.get(`/transactions?agent_id=${agentId}`)).body.data;
const eventsOf = async (type: string, agentId: string) =>
  (await client.get(`/events?type=${type}&page_size=100`)).body.data.filter(
    ({ data }: { data: { agent_id?: string } }) => data.agent_id === agentId,
  );

describe('an agent with only USDC', () => {
  it('is told of before it needs coins, and filled up by the funding agent, so that it can pay', async () => {
    const [funding, needy] = [await newAgent('funding'), await newAgent('needy')];
    await node().setBalance({ address: needy.address, value: 0n });
    const token = await stack.token('owner@example.com');
    const answer = await fetch(`${stack.baseUrl}/api/v1/account`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        gas_top_ups: [{ chain: local, funding_agent_id: funding.id, amount: '0.25', max_per_day: 2 }],
      }),
    });
    expect(answer.status).toBe(200);

    await look();
    expect(await eventsOf('agent.low_gas', needy.id)).toMatchObject([
      { data: { chain: local, address: needy.address, token: 'ETH', balance: '0', transfers_left: 0 } },
    ]);
    const [filled] = await eventually(
      () => sentBy(funding.id),
      ([each]) => each?.status === 'confirmed',
      { timeoutMs },
    );
    expect(filled).toMatchObject({ amount: '0.25', token: 'ETH', to_address: needy.address });
    expect(await holds(needy.address)).toBe(parseEther('0.25'));

    // Once it is seen, nothing more is sent.
    await look();
    await look();
    expect(await sentBy(funding.id)).toHaveLength(1);
    const { body: paid } = await client.post('/transactions', {
      ...{ agent_id: needy.id, direction: 'outbound', type: 'transfer', chain: local },
      ...{ to_address: privateKeyToAddress(generatePrivateKey()), amount: '1', token: 'USDC' },
    });
    await eventually(
      () => client.get(`/transactions/${paid.id}`),
      ({ body }) => body.status === 'confirmed',
      { timeoutMs },
    );

    // Under its own policies, and not tried again at once.
    const policy = await client.post('/policies', {
      ...{ agent_id: funding.id, type: 'spending_limit' },
      rules: { max_transaction_amount: '0.1', token: 'ETH' },
    });
    expect(policy).toMatchObject({ status: 200 });
    await node().setBalance({ address: needy.address, value: 1n });
    await look();
    await eventually(
      () => sentBy(funding.id),
      (list) => list.length === 2 && list.every(({ status }: { status: string }) => status !== 'pending'),
      { timeoutMs },
    );
    expect((await sentBy(funding.id))[0]).toMatchObject({ status: 'failed', failure_code: 'policy_violation' });
    expect(await eventsOf('policy.violated', funding.id)).not.toHaveLength(0);
    await look();
    await look();
    expect(await sentBy(funding.id)).toHaveLength(2);
    expect(await holds(needy.address)).toBe(1n);
  });
});
