import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createBroadcast } from '../../activities/broadcast.ts';
import { createCheckChain } from '../../activities/check-chain.ts';
import { createFollower, type Follower } from '../../activities/follow-chain.ts';
import type { ChainAdapter } from '../../shared/chain/adapter.ts';
import type { Token } from '../../shared/chain/registry.ts';
import type { TronPrepared } from '../../shared/chain/tron/prepared.ts';
import { type AttemptRow, findAttempts } from '../../shared/db/attempts.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { insertTransaction } from '../../shared/db/transactions.ts';
import { newId } from '../../shared/ids.ts';
import { createLogger } from '../../shared/log.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { patience } from '../support/patience.ts';
import {
  buildTron,
  createTronWorld,
  freeze,
  prepareReady,
  signTron,
  type TronWallet,
  type TronWorld,
} from '../support/tron-world.ts';

const trx = 1_000_000n;
const payee = 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8';
const logger = createLogger({ process: 'test', level: 'silent' });

describe('following Tron', () => {
  let database: TestDatabase;
  let pool: Pool;
  let world: TronWorld;
  let adapter: ChainAdapter<TronPrepared>;
  let follower: Follower;
  let payer: TronWallet & { accountId: string; agentId: string; walletId: string };
  let woken: string[];
  beforeAll(async () => {
    database = await createTestDatabase();
    pool = createPool({ url: database.url, application: 'test' });
  });
  afterAll(async () => {
    await pool.end();
    await database.drop();
  });
  beforeEach(async () => {
    world = await createTronWorld();
    adapter = world.adapter();
    woken = [];
    follower = createFollower({ db: pool, adapter, wake: (id) => woken.push(id), logger });
    payer = await storeWallet(world.wallet({ trx: 1_000n * trx, usdt: 500_000_000n }));
    world.double.setAccount(payee, { balanceSun: trx });
  });
  afterEach(async () => {
    await world.stop();
    await pool.query(
      `update transactions set status = 'failed', status_detail = 'failed', failure_code = 'dropped' where status = 'pending'`,
    );
  });

  async function storeWallet(wallet: TronWallet) {
    const [accountId, agentId, walletId, keyId] = [newId('acct'), newId('agent'), newId('wal'), newId('ckey')];
    await pool.query(`insert into accounts (id, name, plan) values ($1, 'Test', 'enterprise')`, [accountId]);
    await pool.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
      keyId,
      accountId,
    ]);
    await pool.query(`insert into agents (id, account_id, agent_name, chain) values ($1, $2, 'Agent', $3)`, [
      agentId,
      accountId,
      world.chain.id,
    ]);
    await pool.query(
      `insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, 'm/0', $4)`,
      [walletId, agentId, keyId, wallet.address],
    );
    return { ...wallet, accountId, agentId, walletId };
  }

  /** A payment that was signed, stored and sent. */
  async function send(token: Token, amountMinor: bigint): Promise<{ id: string; expirationMs: number }> {
    const transfer = { from: payer.address, to: payee, token, amountMinor };
    const prepared = await prepareReady(adapter, transfer);
    const row = await insertTransaction(pool, {
      ...{ id: newId('tx'), accountId: payer.accountId, agentId: payer.agentId, walletId: payer.walletId },
      ...{ chain: world.chain.id, token: token.symbol, asset: token.asset, decimals: token.decimals, amountMinor },
      ...{ fromAddress: payer.address, toAddress: payee, memo: undefined },
    });
    const signed = await signTron(await buildTron(adapter, transfer, prepared), payer);
    const broadcast = createBroadcast({ pool, chains: new Map([[world.chain.id, adapter]]), clock: () => new Date() });
    expect(await broadcast({ transactionId: row.id, ...signed })).toEqual({ outcome: 'sent' });
    return { id: row.id, expirationMs: prepared.expirationMs };
  }
  const attempt = async (id: string): Promise<AttemptRow> => (await findAttempts(pool, { transactionId: id }))[0]!;
  /** One block a round, as while blocks come. */
  const follow = async (rounds: number) => {
    for (let round = 0; round < rounds; round += 1) {
      world.double.produce();
      await follower.round();
    }
  };
  const look = (id: string) =>
    createCheckChain({ pool, chains: new Map([[world.chain.id, adapter]]), clock: () => new Date(), patience })(id);

  it('makes payments final once their block is solidified, with what they cost to the last sun', async () => {
    await follower.round();
    const payments = [await send(world.trx, 5n * trx), await send(world.usdt, 7_000_000n)];
    await follow(1);
    for (const { id } of payments)
      expect(await attempt(id)).toMatchObject({
        block_number: String(world.double.head.number),
        block_hash: world.double.head.id,
        final_at: null,
      });
    await follow(18);
    expect(woken).toEqual([]);
    await follow(1);
    expect(woken.toSorted()).toEqual(payments.map(({ id }) => id).toSorted());
    const [first, second] = await Promise.all(payments.map(({ id }) => attempt(id)));
    expect(first).toMatchObject({ succeeded: true, fee_minor: '0', final_at: expect.any(Date) });
    // 600 bytes a day are free: 267 for the first one, and for the second one no longer enough.
    expect(second).toMatchObject({ succeeded: true, final_at: expect.any(Date) });
    expect(BigInt(second!.fee_minor!)).toBeGreaterThan(13_028_500n);
  });

  it('waits for solidity that is late, and while too few endpoints show it', async () => {
    const { id } = await send(world.trx, trx);
    world.double.solidityLag = 26;
    await follow(24);
    expect(await attempt(id)).toMatchObject({ final_at: null });
    await Promise.all(world.nodes.slice(1).map(freeze));
    await follow(5);
    expect(await attempt(id)).toMatchObject({ final_at: null });
    for (const node of world.nodes) node.set({});
    await follow(1);
    expect(woken).toEqual([id]);
  });

  it('knows by how many blocks it is behind the head, solidified or not', async () => {
    let isBlind = false;
    const blocks: ChainAdapter['blocks'] = (p) =>
      isBlind ? Promise.resolve(p.numbers.map(() => undefined)) : adapter.blocks(p);
    follower = createFollower({ db: pool, adapter: { ...adapter, blocks }, wake: (id) => woken.push(id), logger });
    expect(follower.lagBlocks()).toBe(0);
    await send(world.trx, trx);
    await follow(2);
    expect(follower.lagBlocks()).toBe(0);
    isBlind = true;
    for (let count = 0; count < 5; count += 1) world.double.produce();
    await follower.round();
    expect(follower.lagBlocks()).toBe(5);
    isBlind = false;
    await follow(1);
    expect(follower.lagBlocks()).toBe(0);
  });

  it('goes back with the chain, sends again what has lost its block, and counts it once', async () => {
    const { id } = await send(world.usdt, 7_000_000n);
    await follow(3);
    const before = await attempt(id);
    expect(before.block_hash).toBe(world.double.block(Number(before.block_number))!.id);
    world.double.reorg({ depth: 3, forget: true });
    await follower.round();
    expect(await attempt(id)).toMatchObject({ block_hash: null, block_number: null });
    expect(world.double.pendingIds).toEqual([before.hash]);
    await follow(20);
    expect(woken).toEqual([id]);
    const { data } = await adapter.balances({ owner: payee });
    expect(data[1]).toMatchObject({ amountMinor: 7_000_000n });
  });

  it('notes what the chain has carried out and undone as failed, with the fee', async () => {
    world.double.addToken(world.usdt.asset, { fails: 'REVERT' });
    const { id } = await send(world.usdt, 7_000_000n);
    await follow(20);
    expect(await attempt(id)).toMatchObject({ succeeded: false, final_at: expect.any(Date) });
    expect(BigInt((await attempt(id)).fee_minor!)).toBeGreaterThan(0n);
  });

  it('notes as failed what went well and has moved nothing, though what the contract returns is the same', async () => {
    const done = await send(world.usdt, 1_000_000n);
    await follow(1);
    world.double.addToken(world.usdt.asset, { movesNothing: true });
    const undone = await send(world.usdt, 2_000_000n);
    await follow(20);
    expect(await attempt(done.id)).toMatchObject({ succeeded: true, final_at: expect.any(Date) });
    expect(await attempt(undone.id)).toMatchObject({ succeeded: false, final_at: expect.any(Date) });
    expect(BigInt((await attempt(undone.id)).fee_minor!)).toBeGreaterThan(0n);
  });

  it('ends a payment that no block has taken before it expired, and none earlier', async () => {
    const { id, expirationMs } = await send(world.trx, trx);
    const take = () => world.double.forgetPending();
    take();
    expect(await look(id)).toEqual({ state: 'waiting' });
    // The look has sent it again.
    expect(world.double.pendingIds).toHaveLength(1);
    take();
    world.double.produce({ timestampMs: expirationMs + 1 });
    expect(await look(id)).toEqual({ state: 'waiting' });
    world.solidifyPast(expirationMs + 31_000);
    for (const node of world.nodes.slice(1)) node.set({ down: true });
    // One endpoint alone neither ends it nor refuses its bytes.
    await expect(look(id)).rejects.toMatchObject({ name: 'RpcUnavailable' });
    for (const node of world.nodes) node.set({});
    await expect.poll(() => look(id)).toMatchObject({ state: 'expired', code: 'dropped' });
  });
});
