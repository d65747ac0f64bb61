import type { Address } from 'viem';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { closeHolds, dropHolds, putHolds } from '../../../shared/db/holds.ts';
import { newId } from '../../../shared/ids.ts';
import { createAgent, type TestAccount } from './harness.ts';
import { type ApiWithChain, deadChain, startApiWithChain } from './with-chain.ts';

describe("an agent's balances", () => {
  let world: ApiWithChain;
  let account: TestAccount;
  beforeAll(async () => {
    world = await startApiWithChain();
    account = await world.api.account();
  });
  afterAll(() => world?.stop());

  async function fundedAgent() {
    const agent = await createAgent(account);
    await world.local.fund(agent.address as Address, { eth: '2', usdc: '100' });
    const { rows } = await world.api.pool.query<{ id: string }>('select id from wallets where agent_id = $1', [
      agent.id,
    ]);
    return { ...agent, walletId: rows[0]!.id };
  }
  const balancesOf = (agentId: string) => account.call('GET', `/api/v1/agents/${agentId}/balances`);
  const localBalances = async (agentId: string) =>
    (await balancesOf(agentId)).body.data.filter(({ chain }: { chain: string }) => chain === world.local.chain);

  it('shows every token of every chain; a dead chain hides no other', async () => {
    const agent = await fundedAgent();
    const { status, body } = await balancesOf(agent.id);
    const dead = { chain: deadChain, amount: null, available: null, reserved: null, error: expect.any(String) };
    expect([status, body]).toEqual([
      200,
      {
        data: [
          { chain: world.local.chain, token: 'ETH', amount: '2', available: '2', reserved: '0' },
          { chain: world.local.chain, token: 'USDC', amount: '100', available: '100', reserved: '0' },
          ...world.api.registry.chain(deadChain)!.tokens.map(({ symbol }) => ({ ...dead, token: symbol })),
        ],
      },
    ]);
    expect(JSON.stringify(body)).not.toContain('127.0.0.1');
  });

  it('takes off what payments under way hold, and never goes below zero', async () => {
    const agent = await fundedAgent();
    const [ownerId, other] = [newId('tx'), newId('tx')];
    const wallet = { walletId: agent.walletId, chain: world.local.chain };
    const usdc = (amountMinor: bigint) => [{ asset: world.local.usdcAddress, amountMinor }];
    await putHolds(world.api.pool, { ownerId, ...wallet, holds: usdc(12_500_000n) });
    expect(await localBalances(agent.id)).toMatchObject([
      { token: 'ETH', available: '2', reserved: '0' },
      { token: 'USDC', amount: '100', available: '87.5', reserved: '12.5' },
    ]);
    await putHolds(world.api.pool, { ownerId: other, ...wallet, holds: usdc(90_000_000n) });
    expect(await localBalances(agent.id)).toMatchObject([
      { token: 'ETH' },
      { token: 'USDC', amount: '100', available: '0', reserved: '102.5' },
    ]);
    await dropHolds(world.api.pool, { ownerId: other });
    // Mined in a block that the balance does not show yet: still held. Once it shows, no more.
    await closeHolds(world.api.pool, { ownerId, block: '1000000', spent: usdc(12_500_000n) });
    expect(await localBalances(agent.id)).toMatchObject([{}, { available: '87.5', reserved: '12.5' }]);
    await world.api.pool.query('update holds set closed_block = 1 where owner_id = $1', [ownerId]);
    expect(await localBalances(agent.id)).toMatchObject([{}, { available: '100', reserved: '0' }]);
  });

  it("answers 404 for what is not one's own", async () => {
    const agent = await createAgent(account);
    const stranger = await world.api.account();
    for (const id of [agent.id, newId('agent'), 'x'])
      expect((await stranger.call('GET', `/api/v1/agents/${id}/balances`)).status).toBe(404);
  });

  it('answers 503 when nobody who reaches the chains answers', async () => {
    const agent = await createAgent(account);
    await world.stopChainWorker();
    const startedAt = Date.now();
    const { status, headers, body } = await balancesOf(agent.id);
    expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'service_unavailable', '2']);
    expect(Date.now() - startedAt).toBeLessThan(30_000);
  });
});
