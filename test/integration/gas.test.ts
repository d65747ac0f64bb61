import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { parseEther } from 'viem';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createReadGas } from '../../activities/read-gas.ts';
import { createStartMissing } from '../../activities/start-missing.ts';
import { createTopUpGas, type GasToppedUp } from '../../activities/top-up-gas.ts';
import type { Chains } from '../../shared/chain/adapter.ts';
import { createRegistry } from '../../shared/chain/registry.ts';
import { freeze } from '../../shared/db/freezes.ts';
import { inTransaction } from '../../shared/db/pool.ts';
import { createLogger } from '../../shared/log.ts';
import type { GasRead } from '../../shared/temporal.ts';
import { type ChainWorld, createChainWorld, type TestWallet } from '../support/chain-world.ts';
import { startPuppetWorker } from '../support/puppet-worker.ts';
import { type OwnTemporal, startOwnTemporal } from '../support/temporal.ts';

const chain = 'eip155:31337';
const logger = createLogger({ process: 'test', level: 'silent' });
const registry = createRegistry({ environment: 'sandbox', enabled: [chain] });
const lowTransfers = 5;

let world: ChainWorld;
let temporal: OwnTemporal;
let client: Client;
let puppets: Awaited<ReturnType<typeof startPuppetWorker>>;
beforeAll(async () => {
  [world, temporal] = await Promise.all([createChainWorld(), startOwnTemporal()]);
  client = new Client({ connection: await Connection.connect({ address: temporal.address }) });
  puppets = await startPuppetWorker(temporal);
});
afterAll(async () => {
  await puppets?.stop();
  await client?.connection.close();
  await Promise.all([temporal?.stop(), world?.close()]);
});
/** Only a test's own wallets are looked at. */
afterEach(() => world.pool.query(`update agents set status = 'inactive'`));

const environment = () => new MockActivityEnvironment();
const readGas = (chains: Chains = new Map([[chain, world.adapter()]])): Promise<GasRead> =>
  environment().run(createReadGas({ pool: world.pool, chains, lowTransfers }), { chain });
const topUp = (): Promise<GasToppedUp> =>
  environment().run(createTopUpGas({ pool: world.pool, client, registry, logger }));

/** Holds nothing but what is said. */
const newWallet = (funds: { eth?: string; usdc?: string } = {}) => world.wallet({ eth: '0', usdc: '0', ...funds });
const level = async ({ walletId }: TestWallet) =>
  (await world.pool.query('select * from gas_levels where wallet_id = $1', [walletId])).rows[0];
const eventsOf = async ({ agentId }: TestWallet) =>
  (
    await world.pool.query(`select data from events where type = 'agent.low_gas' and agent_id = $1 order by id`, [
      agentId,
    ])
  ).rows as { data: Record<string, unknown> }[];

describe('what wallets hold for fees', () => {
  it('is read, and tells of a wallet with tokens and too few coins, once for each fall', async () => {
    const wallet = await newWallet({ usdc: '40' });
    expect(await readGas()).toEqual({ chain, read: 1, low: 1, failed: 0 });
    const found = await level(wallet);
    expect(found).toMatchObject({ balance_minor: '0', transfers_left: 0, is_low: true });
    expect(found.low_since).toEqual(found.read_at);
    const told = await eventsOf(wallet);
    expect(told).toHaveLength(1);
    expect(told[0]!.data).toEqual({
      ...{ agent_id: wallet.agentId, chain, address: wallet.account.address, token: 'ETH' },
      ...{ balance: '0', transfers_left: 0, transfer_cost: expect.stringMatching(/^0\.\d+$/) },
      message: expect.stringMatching(/holds 0 ETH on .* Send it some ETH\.$/),
    });

    await readGas();
    expect(await eventsOf(wallet)).toHaveLength(1);
    expect((await level(wallet)).low_since).toEqual(found.low_since);

    await world.local.fund(wallet.account.address, { eth: '1' });
    await readGas();
    expect(await level(wallet)).toMatchObject({
      balance_minor: parseEther('1').toString(),
      is_low: false,
      low_since: null,
    });
    expect(await eventsOf(wallet)).toHaveLength(1);

    await world.node.setBalance({ address: wallet.account.address, value: 1n });
    await readGas();
    expect(await level(wallet)).toMatchObject({ is_low: true });
    expect(await eventsOf(wallet)).toHaveLength(2);
  });

  it('matters not to a wallet without tokens, nor to one of an inactive agent', async () => {
    const [empty, idle] = [await newWallet(), await newWallet({ usdc: '1' })];
    await world.pool.query(`update agents set status = 'inactive' where id = $1`, [idle.agentId]);
    expect(await readGas()).toMatchObject({ read: 1, low: 0 });
    expect(await level(empty)).toMatchObject({ balance_minor: '0', is_low: false });
    expect(await level(idle)).toBeUndefined();
    expect([...(await eventsOf(empty)), ...(await eventsOf(idle))]).toEqual([]);
  });

  it('is told once, also when several workers read it at once', async () => {
    const wallets = await Promise.all([1, 2, 3].map(() => newWallet({ usdc: '1' })));
    await Promise.all([readGas(), readGas(), readGas()]);
    for (const wallet of wallets) expect(await eventsOf(wallet)).toHaveLength(1);
  });

  it('costs at most what a payment is said to cost, to the gas that a transfer takes', async () => {
    const wallet = await newWallet({ eth: '1', usdc: '40' });
    const adapter = world.adapter();
    const prepared = await adapter.prepare({
      ...{ from: wallet.account.address, to: '0x00000000000000000000000000000000000000Aa' },
      ...{ token: world.usdc, amountMinor: 1n },
    });
    if (prepared.outcome !== 'ready') throw new Error(prepared.message);
    const usual = await adapter.transferFee();
    expect(usual).toBeGreaterThanOrEqual(BigInt(prepared.maxFeeMinor));
    expect(usual).toBeLessThan(2n * BigInt(prepared.maxFeeMinor));
  });

  it('that cannot be read hides no other: what is known of that one stays', async () => {
    const [good, bad] = [await newWallet({ usdc: '1' }), await newWallet({ usdc: '1' })];
    const adapter = world.adapter();
    // A double around the real adapter: one address is never answered for.
    const partly = {
      ...adapter,
      balances: async (p: { owner: string }) => {
        if (p.owner === bad.account.address) throw new Error('not this one');
        return adapter.balances(p);
      },
    };
    expect(await readGas(new Map([[chain, partly]]))).toEqual({ chain, read: 1, low: 1, failed: 1 });
    expect(await level(good)).toMatchObject({ is_low: true });
    expect(await level(bad)).toBeUndefined();
  });
});

describe('a funding agent', () => {
  let funding: TestWallet;
  let needy: TestWallet;
  beforeEach(async () => {
    funding = await newWallet({ eth: '5', usdc: '1' });
    needy = await ownedWallet({ usdc: '1' });
    await allow({});
  });

  /** Another wallet of the funding agent's account. */
  async function ownedWallet(funds: { eth?: string; usdc?: string }): Promise<TestWallet> {
    const wallet = await newWallet(funds);
    await world.pool.query(`update agents set account_id = $2, agent_name = id where id = $1`, [
      wallet.agentId,
      funding.accountId,
    ]);
    return { ...wallet, accountId: funding.accountId };
  }
  const allow = (more: { amount?: string; max_per_day?: number; funding_agent_id?: string }) =>
    world.pool.query('update accounts set gas_top_ups = $2 where id = $1', [
      funding.accountId,
      JSON.stringify([{ chain, funding_agent_id: funding.agentId, amount: '0.01', max_per_day: 10, ...more }]),
    ]);
  const payments = async () =>
    (await world.pool.query('select * from transactions where account_id = $1 order by id', [funding.accountId])).rows;
  /** What was told of top-ups that were not made or failed. */
  const toldOf = async (wallet: TestWallet) =>
    (await eventsOf(wallet)).flatMap(({ data }) =>
      data.top_up === undefined ? [] : [data as { top_up?: { reason: string } }],
    );
  const end = (id: string, status: 'confirmed' | 'failed') =>
    world.pool.query(
      `update transactions set status = $2::text, status_detail = $2::text,
              failure_code = case when $2 = 'failed' then 'policy_violation' end where id = $1`,
      [id, status],
    );

  it('fills a wallet up that is low, by an ordinary payment that says what it is for, with its audit entry', async () => {
    await readGas();
    expect(await topUp()).toEqual({ closed: 0, made: 1, unfilled: 0 });
    const made = await payments();
    expect(made).toMatchObject([
      {
        ...{ agent_id: funding.agentId, wallet_id: funding.walletId, from_address: funding.account.address },
        ...{ to_address: needy.account.address, token: 'ETH', asset: 'native' },
        ...{ amount_minor: parseEther('0.01').toString(), status: 'pending', status_detail: 'created' },
        memo: expect.stringContaining(needy.agentId),
      },
    ]);
    const { status } = await client.workflow.getHandle(made[0].id).describe();
    expect(status.name).toBe('RUNNING');
    const { rows } = await world.pool.query(
      `select actor_type from audit_inbox where resource_id = $1 and action = 'transaction.created'`,
      [made[0].id],
    );
    expect(rows).toEqual([{ actor_type: 'system' }]);
  });

  it('makes one payment for a wallet, also when several workers look at once, again and again', async () => {
    await readGas();
    const runs = await Promise.all([topUp(), topUp(), topUp(), topUp()]);
    expect(runs.reduce((sum, { made }) => sum + made, 0)).toBe(1);
    await readGas();
    expect(await topUp()).toMatchObject({ made: 0 });
    expect(await payments()).toHaveLength(1);
  });

  it('pays again only after the wallet was read and is still low', async () => {
    await readGas();
    await topUp();
    await end((await payments())[0].id, 'confirmed');
    expect(await topUp()).toEqual({ closed: 1, made: 0, unfilled: 0 });
    await readGas();
    expect(await topUp()).toMatchObject({ made: 1 });
    await end((await payments())[1].id, 'confirmed');
    await world.local.fund(needy.account.address, { eth: '1' });
    await topUp();
    await readGas();
    expect(await topUp()).toEqual({ closed: 0, made: 0, unfilled: 0 });
  });

  it('whose payment failed tries again after a while, not at once', async () => {
    await readGas();
    await topUp();
    await end((await payments())[0].id, 'failed');
    expect(await topUp()).toEqual({ closed: 1, made: 0, unfilled: 0 });
    await readGas();
    expect(await topUp()).toMatchObject({ made: 0 });
    await world.pool.query(`update gas_fills set ended_at = ended_at - interval '61 minutes' where account_id = $1`, [
      funding.accountId,
    ]);
    await readGas();
    expect(await topUp()).toMatchObject({ made: 1 });
  });

  it('pays no more often in a day than is set, for all wallets together', async () => {
    await Promise.all([1, 2, 3].map(() => ownedWallet({ usdc: '1' })));
    await allow({ max_per_day: 2 });
    await readGas();
    await Promise.all([topUp(), topUp(), topUp()]);
    expect(await payments()).toHaveLength(2);
    for (const { id } of await payments()) await end(id, 'confirmed');
    await readGas();
    await topUp();
    expect(await payments()).toHaveLength(2);
    await world.pool.query(`update gas_fills set created_at = created_at - interval '25 hours' where account_id = $1`, [
      funding.accountId,
    ]);
    await readGas();
    await topUp();
    expect(await payments()).toHaveLength(4);
  });

  it.each([
    ['is itself low', () => world.node.setBalance({ address: funding.account.address, value: 0n }), null],
    [
      'is inactive',
      () => world.pool.query(`update agents set status = 'inactive' where id = $1`, [funding.agentId]),
      'agent_inactive',
    ],
    [
      'is not set',
      () => world.pool.query(`update accounts set gas_top_ups = '[]' where id = $1`, [funding.accountId]),
      undefined,
    ],
    [
      'is of another account',
      async () => allow({ funding_agent_id: (await newWallet({ eth: '1' })).agentId }),
      'agent_deleted',
    ],
    [
      'is frozen',
      () =>
        inTransaction(world.pool, (db) =>
          freeze(db, {
            ...{ scope: 'agent', accountId: funding.accountId, agentId: funding.agentId },
            ...{ reason: 'a test', by: 'operator' },
          }),
        ),
      'frozen',
    ],
  ])('that %s never fills itself up, and others only if it can; else that is told once', async (_, change, reason) => {
    await change();
    await readGas();
    const [made, unfilled] = [reason === null ? 1 : 0, typeof reason === 'string' ? 1 : 0];
    expect(await topUp()).toMatchObject({ made, unfilled });
    for (const payment of await payments()) expect(payment.to_address).toBe(needy.account.address);
    await readGas();
    expect(await Promise.all([topUp(), topUp()])).toMatchObject([{ unfilled }, { unfilled }]);
    expect((await toldOf(needy)).map(({ top_up }) => top_up)).toEqual(
      unfilled === 0 ? [] : [{ reason, funding_agent_id: expect.any(String), transaction_id: null }],
    );
  });

  it('that cannot pay is told again for another reason, and after the wallet had enough in between', async () => {
    const setStatus = (status: string) =>
      world.pool.query('update agents set status = $2 where id = $1', [funding.agentId, status]);
    await setStatus('inactive');
    await readGas();
    await topUp();
    await setStatus('active');
    await allow({ max_per_day: 0 });
    expect(await topUp()).toMatchObject({ made: 0, unfilled: 1 });
    await setStatus('inactive');
    await topUp();
    const reasons = async () => (await toldOf(needy)).map(({ top_up }) => top_up?.reason);
    expect(await reasons()).toEqual(['agent_inactive', 'max_per_day']);
    expect((await toldOf(needy))[0]).toMatchObject({
      ...{ agent_id: needy.agentId, chain, address: needy.account.address },
      message: `The wallet ${needy.account.address} is low on coins for fees on ${chain}, and is not filled up: the funding agent ${funding.agentId} is inactive.`,
    });

    await world.node.setBalance({ address: needy.account.address, value: parseEther('1') });
    await readGas();
    await topUp();
    await world.node.setBalance({ address: needy.account.address, value: 1n });
    await readGas();
    await topUp();
    expect(await reasons()).toEqual(['agent_inactive', 'max_per_day', 'agent_inactive']);
  });

  it('whose payments fail is told once, by what they fail for, with the payment', async () => {
    const endLast = async () => {
      const made = (await payments()).at(-1);
      await end(made.id, 'failed');
      return made.id as string;
    };
    await readGas();
    await topUp();
    const first = await endLast();
    await topUp();
    await world.pool.query(`update gas_fills set ended_at = ended_at - interval '61 minutes' where account_id = $1`, [
      funding.accountId,
    ]);
    await readGas();
    expect(await topUp()).toMatchObject({ made: 1 });
    await endLast();
    await Promise.all([topUp(), topUp()]);
    expect((await toldOf(needy)).map(({ top_up }) => top_up)).toEqual([
      { reason: 'policy_violation', funding_agent_id: funding.agentId, transaction_id: first },
    ]);
  });

  it('that cannot pay keeps no other wallet from its turn, however many wait for it', async () => {
    await world.pool.query(`update agents set status = 'inactive' where id = $1`, [funding.agentId]);
    await readGas();
    const other = await newWallet({ eth: '5', usdc: '1' });
    const last = await newWallet({ usdc: '1' });
    await world.pool.query('update agents set account_id = $2, agent_name = id where id = $1', [
      last.agentId,
      other.accountId,
    ]);
    await world.pool.query('update accounts set gas_top_ups = $2 where id = $1', [
      other.accountId,
      JSON.stringify([{ chain, funding_agent_id: other.agentId, amount: '0.01', max_per_day: 10 }]),
    ]);
    await readGas();
    await world.pool.query(
      `with agent as (
         insert into agents (id, account_id, agent_name, agent_description, metadata, chain)
         select 'agent_crowd_' || n, $1, 'crowd ' || n, agent_description, metadata, chain
         from agents, generate_series(1, 60) n where id = $2 returning id),
       wallet as (
         insert into wallets select (jsonb_populate_record(w, jsonb_build_object('id', 'wal_' || a.id, 'agent_id', a.id,
           'address', a.id, 'path', a.id))).*
         from agent a, wallets w where w.id = $3 returning id)
       insert into gas_levels select (jsonb_populate_record(g, jsonb_build_object('wallet_id', w.id))).*
       from wallet w, gas_levels g where g.wallet_id = $3`,
      [funding.accountId, needy.agentId, needy.walletId],
    );
    expect(await topUp()).toEqual({ closed: 0, made: 1, unfilled: 61 });
  });

  it('pays once where the worker is killed between storing the payment and starting it', async () => {
    await readGas();
    const program = fileURLToPath(new URL('../support/gas-process.ts', import.meta.url));
    const child = spawn(process.execPath, [program, world.database.url], { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await exited;
    const [stored] = await payments();
    await expect(client.workflow.getHandle(stored.id).describe()).rejects.toThrow(/not found/i);

    expect(await topUp()).toMatchObject({ made: 0 });
    await world.pool.query(
      `update transactions set created_at = now() - interval '1 minute', updated_at = now() - interval '1 minute' where id = $1`,
      [stored.id],
    );
    await environment().run(createStartMissing({ pool: world.pool, client, logger }));
    expect((await client.workflow.getHandle(stored.id).describe()).status.name).toBe('RUNNING');
    expect(await payments()).toHaveLength(1);
  });
});
