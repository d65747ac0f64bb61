import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createBroadcast } from '../../activities/broadcast.ts';
import { type BlockWatcher, createBlockWatcher } from '../../activities/watch-blocks.ts';
import type { ChainAdapter } from '../../shared/chain/adapter.ts';
import { createLogger } from '../../shared/log.ts';
import { measureWatchers } from '../../worker/measure-watchers.ts';
import { bestOf } from '../support/best-of.ts';
import { type ChainWorld, createChainWorld, signPayment, type TestWallet, until } from '../support/chain-world.ts';

const recipient = '0x00000000000000000000000000000000000000aa';
const logger = createLogger({ process: 'test', level: 'silent' });

describe('the block watcher', () => {
  let world: ChainWorld;
  let wallet: TestWallet;
  const woken: string[] = [];
  const watchers: BlockWatcher[] = [];
  beforeAll(async () => {
    world = await createChainWorld();
  });
  afterAll(() => world.close());
  beforeEach(async () => {
    await world.node.setAutomine(true);
    wallet = await world.wallet();
    await world.node.setAutomine(false);
    woken.length = 0;
  });
  afterEach(async () => {
    await Promise.all(watchers.splice(0).map((each) => each.stop()));
    // What one test leaves open is not the next one's business.
    await world.pool.query(
      `update transactions set status = 'failed', status_detail = 'failed', failure_code = 'dropped' where status = 'pending'`,
    );
  });

  function watch(adapter: ChainAdapter = world.adapter()): BlockWatcher {
    const wake = async (id: string) => {
      woken.push(id);
    };
    const watcher = createBlockWatcher({ pool: world.pool, adapter, wake, logger });
    watchers.push(watcher);
    watcher.start();
    return watcher;
  }
  const mine = (blocks = 1) => world.node.mine({ blocks });

  async function send({ count = 1, native = false }: { count?: number; native?: boolean } = {}): Promise<string[]> {
    const chains = new Map([[world.local.chain, world.adapter()]]);
    const broadcast = createBroadcast({ pool: world.pool, chains, clock: () => new Date() });
    const token = native ? world.eth : world.usdc;
    const from = wallet.account.address;
    const prepared = await world.adapter().prepare({ from, to: recipient, token, amountMinor: 7n });
    if (prepared.outcome !== 'ready') throw new Error(prepared.message);
    const ids: string[] = [];
    for (let index = 0; index < count; index += 1) {
      const row = await world.payment({ wallet, to: recipient, token, amountMinor: 7n });
      const nonce = prepared.minedCount + index;
      const { raw, hash } = await signPayment({ wallet, row, prepared, nonce });
      await broadcast({ transactionId: row.id, raw, hash });
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
  const leaderPid = async (): Promise<number | undefined> => {
    const { rows } = await world.pool.query<{ pid: number }>(
      `select pid from pg_locks where locktype = 'advisory' and granted and classid = hashtext('block watcher')::oid
         and database = (select oid from pg_database where datname = current_database())`,
    );
    return rows[0]?.pid;
  };

  const untilHeadIsSeen = async () => {
    const { hash } = await world.node.getBlock();
    const stored = 'select from chain_heads where chain = $1 and hash = $2';
    await until(
      async () => (await world.pool.query(stored, [world.local.chain, hash])).rowCount,
      (seen) => seen === 1,
    );
  };

  it('confirms native and token payments with the fee of the receipt, to the last wei', async () => {
    watch();
    for (const native of [true, false]) {
      const [id] = await send({ native });
      expect((await world.transaction(id!)).status_detail).toBe('broadcast');
      await mine();
      await untilFinal([id!]);
      const { hash } = await attempt(id!);
      const receipt = await world.node.getTransactionReceipt({ hash: hash as `0x${string}` });
      expect(await attempt(id!)).toMatchObject({
        succeeded: true,
        block_hash: receipt.blockHash,
        fee_minor: (receipt.gasUsed * receipt.effectiveGasPrice).toString(),
        final_at: expect.any(Date),
      });
      const { rows } = await world.pool.query('select number, hash from chain_heads where chain = $1', [
        world.local.chain,
      ]);
      expect(BigInt(rows[0].number)).toBeGreaterThanOrEqual(receipt.blockNumber);
    }
  });

  it('finds all of many payments in one block, and wakes each', async () => {
    watch();
    const ids = await send({ count: 20 });
    await mine();
    await untilFinal(ids);
    expect(woken.toSorted()).toEqual(ids.toSorted());
  });

  it('says failed for what the chain reverted, and never for a receipt that has not come (F29)', async () => {
    watch();
    const [id] = await send();
    // The token turns against the payment between simulation and block.
    const address = world.local.usdcAddress;
    const bytecode = await world.node.getCode({ address });
    await world.node.setCode({ address, bytecode: '0x60006000fd' });
    expect(await attempt(id!)).toMatchObject({ succeeded: null, final_at: null });
    await mine();
    await untilFinal([id!]);
    expect(await attempt(id!)).toMatchObject({ succeeded: false });
    await world.node.setCode({ address, bytecode: bytecode! });
  });

  it.each([
    ['while it follows', true],
    ['just after a start', false],
  ])('waits for a receipt that comes later than its block (F29): %s', async (_, isEarly) => {
    let [isHidden, asked] = [true, 0];
    const real = world.adapter();
    const late: ChainAdapter = {
      ...real,
      async inclusions(p) {
        asked += p.hashes.length;
        return isHidden ? [] : real.inclusions(p);
      },
      async agreedInclusions(p) {
        if (!isHidden) return real.agreedInclusions(p);
        return p.placed.map(({ hash }) => ({ hash, outcome: 'undecided' }));
      },
    };
    if (isEarly) watch(late);
    const [id] = await send({ native: true });
    if (isEarly) await untilHeadIsSeen();
    await mine();
    if (!isEarly) watch(late);
    await until(
      async () => asked,
      (seen) => seen >= 4,
    );
    expect(await attempt(id!)).toMatchObject({ block_number: null });
    expect(await world.transaction(id!)).toMatchObject({ status: 'pending' });
    isHidden = false;
    await untilFinal([id!]);
  });

  it('asks the chain nothing while no payment waits', async () => {
    const proxy = await startProxy(world.local.rpcUrl);
    watch(world.adapter({ urls: [proxy.url] }));
    await until(leaderPid, (pid) => pid !== undefined);
    const [id] = await send({ native: true });
    await mine();
    await untilFinal([id!]);
    await world.pool.query(
      `update transactions set status = 'confirmed', status_detail = 'confirmed' where status = 'pending'`,
    );
    // Quiet for as long as many polls, and then again while blocks go by.
    const untilQuiet = async () => {
      let [last, since] = [-1, Date.now()];
      return until(
        async () => {
          if (proxy.served() !== last) [last, since] = [proxy.served(), Date.now()];
          return { served: last, quietMs: Date.now() - since };
        },
        (seen) => seen.quietMs > 1_500,
      );
    };
    const { served } = await untilQuiet();
    await mine(3);
    expect((await untilQuiet()).served).toBe(served);
    await proxy.close();
  });

  it('hands the lead over within two seconds when the leader dies', async () => {
    watch();
    await until(leaderPid, (pid) => pid !== undefined);
    watch();
    const [id] = await send({ native: true });
    const handsOver = async () => {
      const first = await until(leaderPid, (pid) => pid !== undefined);
      const from = performance.now();
      await world.pool.query('select pg_terminate_backend($1)', [first]);
      await until(leaderPid, (pid) => pid !== undefined && pid !== first);
      return performance.now() - from;
    };
    expect(await bestOf(handsOver, { withinMs: 2_000 })).toBeLessThan(2_000);
    await mine();
    await untilFinal([id!]);
  });

  it('finds after a start what was mined while nobody watched', async () => {
    const ids = await send({ count: 3, native: true });
    await mine(5);
    watch();
    await untilFinal(ids);
  });

  it('goes on by itself when the endpoint was away (F3)', async () => {
    const proxy = await startProxy(world.local.rpcUrl);
    watch(world.adapter({ urls: [proxy.url] }));
    const ids = await send({ count: 5, native: true });
    await until(
      async () => proxy.served(),
      (seen) => seen > 0,
    );
    await proxy.close();
    await mine(3);
    const reopened = await startProxy(world.local.rpcUrl, proxy.port);
    await untilFinal(ids);
    await reopened.close();
  });

  it('tells by how many blocks it is behind the head, while it leads, and that it is not while nothing waits', async () => {
    const adapter = world.adapter();
    let isBlind = false;
    const blocks: ChainAdapter['blocks'] = (p) =>
      isBlind ? Promise.resolve(p.numbers.map(() => undefined)) : adapter.blocks(p);
    const registry = new Registry();
    const measure = measureWatchers(registry)(world.local.chain);
    const wake = async (id: string) => void woken.push(id);
    const watcher = createBlockWatcher({ pool: world.pool, adapter: { ...adapter, blocks }, wake, logger, measure });
    watchers.push(watcher);
    const lag = async () => (await registry.getSingleMetric('purser_watcher_lag_blocks')!.get()).values[0]?.value;
    const untilLag = (wanted: number | undefined) => until(lag, (seen) => seen === wanted);
    expect(await lag()).toBeUndefined();
    watcher.start();
    await untilLag(0);
    const [id] = await send({ native: true });
    await untilHeadIsSeen();
    isBlind = true;
    await mine(7);
    await untilLag(7);
    await mine(3);
    await untilLag(10);
    isBlind = false;
    await untilFinal([id!]);
    await untilLag(0);
    await watcher.stop();
    expect(await lag()).toBeUndefined();
  });

  it.each([
    ['followed from before the payment', true],
    ['found after a start', false],
  ])('undoes what a reorganisation took back, sends it again, and confirms it once (F47): %s', async (_, isEarly) => {
    if (isEarly) watch(world.adapter({ confirmations: 5 }));
    const [id] = await send({ native: true });
    if (isEarly) await untilHeadIsSeen();
    await mine();
    if (!isEarly) watch(world.adapter({ confirmations: 5 }));
    const included = await untilIncluded(id!);
    await mine(2);
    await world.node.request({ method: 'anvil_reorg' as never, params: [3, []] as never });
    await until(
      () => attempt(id!),
      (seen) => seen.block_hash === null,
    );
    expect(woken).toEqual([]);
    expect(await world.transaction(id!)).toMatchObject({
      status: 'pending',
      status_detail: 'confirming',
      block_number: null,
      fee_minor: null,
      confirmations: 0,
    });
    await until(
      () => world.adapter().knows({ hash: included.hash }),
      (known) => known,
    );
    await mine();
    await until(
      () => attempt(id!),
      (seen) => seen.block_hash !== null && seen.block_hash !== included.block_hash,
    );
    expect(woken).toEqual([]);
    await mine(4);
    await untilFinal([id!]);
    expect(woken).toEqual([id]);
  });
});

/** Passes requests on, until it is closed with all its connections. */
async function startProxy(target: string, port = 0) {
  let served = 0;
  const server: Server = createServer((incoming, outgoing) => {
    served += 1;
    const passed = request(target, { method: 'POST', headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on('error', () => outgoing.destroy());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const taken = (server.address() as AddressInfo).port;
  return {
    url: `http://127.0.0.1:${taken}`,
    port: taken,
    served: () => served,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
