import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBitcoinAdapter } from '../../../shared/chain/bitcoin/create-bitcoin-adapter.ts';
import { createRegistry } from '../../../shared/chain/registry.ts';
import { putHolds } from '../../../shared/db/holds.ts';
import { newId } from '../../../shared/ids.ts';
import { payee } from '../../support/bitcoin-payees.ts';
import { startTestBitcoin, type TestBitcoin } from '../../support/btcd.ts';
import { createTronWorld, newTronWallet, type TronWorld } from '../../support/tron-world.ts';
import { createAgent, payment, type TestAccount } from './harness.ts';
import { type ApiWithChain, startApiWithChain } from './with-chain.ts';

describe('chains of other families, asked through the api', () => {
  let bitcoin: TestBitcoin;
  let tron: TronWorld;
  let world: ApiWithChain;
  let account: TestAccount;

  beforeAll(async () => {
    [bitcoin, tron] = await Promise.all([startTestBitcoin(), createTronWorld({ nodes: 1 })]);
    const [chain] = createRegistry({ environment: 'sandbox', enabled: [bitcoin.chain] }).chains;
    const further = [createBitcoinAdapter({ chain: chain!, urls: [bitcoin.url] }), tron.adapter()];
    world = await startApiWithChain({ hasDead: false, further });
    account = await world.api.account();
  });
  afterAll(async () => {
    await world?.stop();
    await Promise.all([bitcoin?.stop(), tron?.stop()]);
  });

  async function bitcoinAgent(valueSat: bigint) {
    const agent = await createAgent(account, { chain: bitcoin.chain });
    await bitcoin.pay([{ address: agent.address, valueSat }]);
    return agent;
  }
  async function tronAgent({ trx, usdt }: { trx: bigint; usdt: bigint }) {
    const agent = await createAgent(account, { chain: tron.chain.id });
    tron.double.setAccount(agent.address, { balanceSun: trx * 1_000_000n });
    tron.double.setTokens(tron.usdt.asset, agent.address, usdt * 1_000_000n);
    tron.solidify();
    return agent;
  }
  const balancesOf = async (agentId: string) =>
    (await account.call('GET', `/api/v1/agents/${agentId}/balances`)).body.data;
  const simulate = async (agentId: string, more: Record<string, unknown>) => {
    const { status, body } = await account.call('POST', '/api/v1/transactions/simulate', payment(agentId, more));
    expect([status, body.message]).toEqual([200, undefined]);
    return body;
  };
  async function hold(agentId: string, chain: string, amountMinor: bigint) {
    const { rows } = await world.api.pool.query('select id from wallets where agent_id = $1', [agentId]);
    const holds = [{ asset: 'native', amountMinor }];
    await putHolds(world.api.pool, { ownerId: newId('tx'), walletId: rows[0].id, chain, holds });
  }

  it('shows what a wallet has on its own chain, and on no other', async () => {
    const [onBitcoin, onTron] = [await bitcoinAgent(150_000n), await tronAgent({ trx: 20n, usdt: 50n })];
    await hold(onBitcoin.id, bitcoin.chain, 30_000n);
    expect(await balancesOf(onBitcoin.id)).toEqual([
      { chain: bitcoin.chain, token: 'BTC', amount: '0.0015', available: '0.0012', reserved: '0.0003' },
    ]);
    const all = { chain: tron.chain.id, reserved: '0' };
    expect(await balancesOf(onTron.id)).toEqual([
      { ...all, token: 'TRX', amount: '20', available: '20' },
      { ...all, token: 'USDT', amount: '50', available: '50' },
    ]);
  });

  it('says of a payment of BTC what it may cost, and what stands against it', async () => {
    const agent = await bitcoinAgent(150_000n);
    const to = payee('p2tr');
    const pay = { chain: bitcoin.chain, token: 'BTC', to_address: to };
    expect(await simulate(agent.id, { ...pay, amount: '0.001' })).toMatchObject({
      ...{ allowed: true, decision: 'allow', violations: [], warnings: [] },
      estimated_fee: expect.stringMatching(/^0\.0000\d+$/),
    });
    expect(await simulate(agent.id, { ...pay, amount: '0.01' })).toMatchObject({
      ...{ allowed: false, decision: 'deny' },
      violations: [{ rule: 'balance', token: 'BTC', limit: '0.0015', used: '0' }],
    });
    expect(await simulate(agent.id, { ...pay, amount: '0.000001' })).toMatchObject({
      allowed: false,
      warnings: [{ code: 'simulation_failed', message: expect.stringContaining('dust') }],
    });
    const { body: policy } = await account.call('POST', '/api/v1/policies', {
      ...{ agent_id: agent.id, type: 'address_control', rules: { blocked_addresses: [to.toUpperCase()] } },
    });
    expect(await simulate(agent.id, { ...pay, to_address: to.toUpperCase(), amount: '0.001' })).toMatchObject({
      violations: [{ policy_id: policy.id, rule: 'blocked_addresses', attempted: to, limit: to }],
    });
  });

  it('says the same of payments on Tron, in tokens and in TRX', async () => {
    const agent = await tronAgent({ trx: 100n, usdt: 50n });
    const { address: to } = newTronWallet();
    const pay = { chain: tron.chain.id, to_address: to };
    const limit = { max_transaction_amount: '20' };
    const { body: policy } = await account.call('POST', '/api/v1/policies', {
      ...{ agent_id: agent.id, type: 'spending_limit', rules: limit },
    });
    expect(await simulate(agent.id, { ...pay, token: 'USDT', amount: '12.5' })).toMatchObject({
      ...{ allowed: true, violations: [], warnings: [] },
      headroom: { [policy.id]: { max_transaction_amount: { limit: '20', token: 'USDT' } } },
      estimated_fee: expect.stringMatching(/^\d+(\.\d{1,6})?$/),
    });
    expect((await simulate(agent.id, { ...pay, token: 'USDT', amount: '60' })).violations).toMatchObject([
      { policy_id: policy.id, rule: 'max_transaction_amount', token: 'USDT' },
      { rule: 'balance', token: 'USDT', limit: '50' },
    ]);
    // Whom nobody has paid yet has to be made known to the chain first: 1.1 TRX.
    const inTrx = await simulate(agent.id, { ...pay, token: 'TRX', amount: '5' });
    expect(inTrx).toMatchObject({ allowed: true, warnings: [{ code: 'limit_without_token', policy_id: policy.id }] });
    expect(Number(inTrx.estimated_fee)).toBeGreaterThan(1);
  });

  it('lets an agent go with what is dust in its wallet, and with nothing more', async () => {
    const remove = ({ id }: { id: string }) => account.call('DELETE', `/api/v1/agents/${id}`);
    expect((await remove(await bitcoinAgent(300n))).status).toBe(200);
    const kept = async (agent: { id: string }) => {
      const { status, body } = await remove(agent);
      expect(status).toBe(400);
      return body.details.balances;
    };
    expect(await kept(await bitcoinAgent(50_000n))).toMatchObject([{ token: 'BTC', amount: '0.0005' }]);
    expect(await kept(await tronAgent({ trx: 3n, usdt: 0n }))).toMatchObject([{ token: 'TRX', amount: '3' }]);
    expect(await kept(await tronAgent({ trx: 0n, usdt: 1n }))).toMatchObject([{ token: 'USDT', amount: '1' }]);
    expect((await remove(await tronAgent({ trx: 0n, usdt: 0n }))).status).toBe(200);
  });
});
