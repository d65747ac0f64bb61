import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createBroadcast } from '../../activities/broadcast.ts';
import { createFollower } from '../../activities/follow-chain.ts';
import { type BlockWatcher, createBlockWatcher } from '../../activities/watch-blocks.ts';
import type { ChainAdapter } from '../../shared/chain/adapter.ts';
import type { BitcoinPrepared } from '../../shared/chain/bitcoin/prepared.ts';
import { findSlot, insertSlot } from '../../shared/db/slots.ts';
import { createLogger } from '../../shared/log.ts';
import { type BitcoinOperator, createBitcoinOperator } from '../support/bitcoin-operator.ts';
import { payee } from '../support/bitcoin-payees.ts';
import {
  type BitcoinWallet,
  type BitcoinWorld,
  buildPayment,
  createBitcoinWorld,
  signBitcoin,
} from '../support/bitcoin-world.ts';
import { until } from '../support/chain-world.ts';
import { startEsploraProxy } from '../support/esplora-proxy.ts';

const logger = createLogger({ process: 'test', level: 'silent' });

describe('following a Bitcoin chain', () => {
  let world: BitcoinWorld;
  let operator: BitcoinOperator;
  const woken: string[] = [];
  const watchers: BlockWatcher[] = [];
  beforeAll(async () => {
    world = await createBitcoinWorld();
    operator = createBitcoinOperator(world.bitcoin.node);
  });
  afterAll(() => world.close());
  beforeEach(() => {
    woken.length = 0;
  });
  afterEach(async () => {
    await Promise.all(watchers.splice(0).map((each) => each.stop()));
    await world.bitcoin.mine();
    // What one test leaves open is not the next one's business.
    await world.pool.query(
      `update transactions set status = 'failed', status_detail = 'failed', failure_code = 'dropped' where status = 'pending'`,
    );
  });

  const to = payee('p2wpkh');
  const mine = (blocks = 1) => world.bitcoin.mine(blocks);
  function watch(adapter: ChainAdapter = world.adapter()): void {
    const wake = async (id: string) => {
      woken.push(id);
    };
    const watcher = createBlockWatcher({ pool: world.pool, adapter, wake, logger });
    watchers.push(watcher);
    watcher.start();
  }

  /** Payments that are stored and sent, each with a coin of its own. */
  async function send({ wallet, count = 1 }: { wallet: BitcoinWallet; count?: number }): Promise<string[]> {
    const chains = new Map([[world.chain.id, world.adapter()]]);
    const broadcast = createBroadcast({ pool: world.pool, chains, clock: () => new Date() });
    const amountMinor = 10_000n;
    const prepared = await world.adapter().prepare({ from: wallet.address, to, token: world.btc, amountMinor });
    if (prepared.outcome !== 'ready') throw new Error(prepared.message);
    const { coins } = prepared as unknown as BitcoinPrepared;
    const ids: string[] = [];
    for (const coin of coins.slice(0, count)) {
      const row = await world.payment({ wallet, to, amountMinor });
      const one = { ...prepared, coins: [coin] };
      const transaction = await buildPayment({ wallet, row, prepared: one });
      const { raw, hash } = signBitcoin({ wallet, transaction });
      const payload = { kind: 'bitcoin-transaction' as const, transaction };
      const { chain, wallet_id: walletId, id: transactionId } = row;
      await insertSlot(world.pool, { chain, walletId, transactionId, payload, nonce: null, coins: [coin] });
      expect(await broadcast({ transactionId: row.id, raw, hash })).toEqual({ outcome: 'sent' });
      ids.push(row.id);
    }
    return ids;
  }
  const attempt = async (id: string) => (await world.attempts(id))[0]!;
  const untilIncluded = (id: string) =>
    until(
      () => attempt(id),
      (seen) => seen.block_number !== null,
    );
  const untilFinal = (ids: readonly string[]) =>
    until(
      async () => woken.filter((id) => ids.includes(id)),
      (seen) => new Set(seen).size === ids.length,
    );

  it('confirms a payment with its fee, to the last satoshi', async () => {
    watch();
    const wallet = await world.wallet({ coinsSat: [50_000n] });
    const [id] = await send({ wallet });
    expect((await world.transaction(id!)).status_detail).toBe('broadcast');
    const [block] = await mine();
    await untilFinal([id!]);
    const { hash } = await attempt(id!);
    const left = (await world.adapter().balances({ owner: wallet.address })).data[0] as { amountMinor: bigint };
    expect(await attempt(id!)).toMatchObject({
      ...{ hash, succeeded: true, block_hash: block },
      fee_minor: String(50_000n - 10_000n - left.amountMinor),
      final_at: expect.any(Date),
    });
  });

  it('finds all of many payments in one block, and wakes each', async () => {
    watch();
    const wallet = await world.wallet({ coinsSat: Array.from({ length: 20 }, () => 30_000n) });
    const ids = await send({ wallet, count: 20 });
    await mine();
    await untilFinal(ids);
    expect(woken.toSorted()).toEqual(ids.toSorted());
  });

  it('counts depth, and makes nothing final before', async () => {
    watch(world.adapter({ confirmations: 3 }));
    const [id] = await send({ wallet: await world.wallet() });
    await mine();
    await untilIncluded(id!);
    expect(await attempt(id!)).toMatchObject({ final_at: null });
    await mine(2);
    await untilFinal([id!]);
    expect(await attempt(id!)).toMatchObject({ succeeded: true, final_at: expect.any(Date) });
  });

  it('notes in which block a payment is after a reorganisation', async () => {
    watch(world.adapter({ confirmations: 3 }));
    const [id] = await send({ wallet: await world.wallet() });
    await mine();
    const first = await untilIncluded(id!);
    await operator.reorg(1);
    await until(
      () => attempt(id!),
      (seen) => seen.block_number === null,
    );
    await mine(3);
    await untilFinal([id!]);
    const seen = await attempt(id!);
    expect(Number(seen.block_number)).toBe(Number(first.block_number) + 2);
    expect(seen.block_hash).not.toBe(first.block_hash);
  });

  it('gives a node the bytes again that were in a block which is gone', async () => {
    const proxy = await startEsploraProxy({ target: world.bitcoin.url });
    const isSent = () => proxy.asked().includes('/tx');
    watch(world.adapter({ confirmations: 3, urls: [proxy.url] }));
    const [id] = await send({ wallet: await world.wallet() });
    await mine();
    await untilIncluded(id!);
    expect(isSent()).toBe(false);
    await operator.reorg(1);
    await until(async () => isSent(), Boolean);
    await mine(3);
    await untilFinal([id!]);
    await proxy.stop();
  });

  it('goes on where it was after a pause in which more blocks came than are read one by one', async () => {
    const [id] = await send({ wallet: await world.wallet() });
    await mine(60);
    watch();
    await untilFinal([id!]);
    expect(await attempt(id!)).toMatchObject({ succeeded: true, final_at: expect.any(Date) });
  });

  it('knows by how many blocks it is behind the head, also where it never could read one', async () => {
    const adapter = world.adapter();
    let isBlind = true;
    const inclusions: ChainAdapter['inclusions'] = (p) =>
      isBlind ? Promise.reject(new Error('no answer')) : adapter.inclusions(p);
    const follower = createFollower({ db: world.pool, adapter: { ...adapter, inclusions }, wake: () => {}, logger });
    await send({ wallet: await world.wallet() });
    await expect(follower.round()).rejects.toThrow('no answer');
    expect(follower.lagBlocks()).toBe(1);
    await mine(3);
    await expect(follower.round()).rejects.toThrow('no answer');
    expect(follower.lagBlocks()).toBe(4);
    isBlind = false;
    await follower.round();
    expect(follower.lagBlocks()).toBe(0);
  });

  it('has a payment offer more that no block has taken for long', async () => {
    watch(world.adapter({ speedUpAfterBlocks: 3 }));
    const [id] = await send({ wallet: await world.wallet() });
    const untilSeen = async () => {
      const head = await world.bitcoin.rpc<string>('getbestblockhash');
      await until(
        async () => (await world.pool.query('select from chain_heads where hash = $1', [head])).rowCount,
        (seen) => seen === 1,
      );
    };
    await untilSeen();
    for (let block = 0; block < 2; block += 1) {
      await operator.mineEmpty();
      await untilSeen();
      expect((await findSlot(world.pool, { transactionId: id! }))!.wanted).toBeNull();
    }
    await operator.mineEmpty();
    await untilFinal([id!]);
    expect((await findSlot(world.pool, { transactionId: id! }))!.wanted).toBe('speed_up');
    expect(await world.adapter().knows(await attempt(id!))).toBe(true);
  });
});
