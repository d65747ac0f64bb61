import type { Hex } from 'viem';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createBroadcast } from '../../activities/broadcast.ts';
import { createCheckChain } from '../../activities/check-chain.ts';
import { type BlockWatcher, createBlockWatcher } from '../../activities/watch-blocks.ts';
import type { ChainAdapter } from '../../shared/chain/adapter.ts';
import { createLogger, type Logger } from '../../shared/log.ts';
import { startTestChain, type TestChain } from '../support/anvil.ts';
import { type ChainWorld, createChainWorld, signPayment, type TestWallet, until } from '../support/chain-world.ts';
import type { RpcAnswer } from '../support/lagging-node.ts';
import { patiently } from '../support/patience.ts';
import { type RpcFaults, type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts';

const recipient = '0x00000000000000000000000000000000000000aa';
const logger = createLogger({ process: 'test', level: 'silent' });
/** Looks of the watcher after which something that must not happen would have happened. */
const manyLooks = 10;

describe('endpoints that disagree', () => {
  let world: ChainWorld;
  let wallet: TestWallet;
  let proxies: RpcProxy[];
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
    proxies = await Promise.all([1, 2, 3].map(() => startRpcProxy({ target: world.local.rpcUrl })));
    woken.length = 0;
  });
  afterEach(async () => {
    await Promise.all(watchers.splice(0).map((each) => each.stop()));
    await Promise.all(proxies.map((each) => each.stop()));
    await world.pool.query(
      `update transactions set status = 'failed', status_detail = 'failed', failure_code = 'dropped' where status = 'pending'`,
    );
  });

  const mine = (blocks = 1) => world.node.mine({ blocks });
  const set = (...faults: RpcFaults[]) => {
    faults.forEach((each, index) => {
      proxies[index]!.set(each);
    });
  };
  const connect = ({ confirmations = 1, count = 3 } = {}): ChainAdapter =>
    world.adapter({ confirmations, urls: proxies.slice(0, count).map((each) => each.url) });
  const activities = (adapter: ChainAdapter) => {
    const deps = { pool: world.pool, chains: new Map([[world.local.chain, adapter]]), ...patiently };
    return { broadcast: createBroadcast(deps), checkChain: createCheckChain(deps) };
  };
  function watch(adapter: ChainAdapter, log: Logger = logger): void {
    const wake = async (id: string) => {
      woken.push(id);
    };
    const watcher = createBlockWatcher({ pool: world.pool, adapter, wake, logger: log });
    watchers.push(watcher);
    watcher.start();
  }

  /** Payments that are signed and stored, in the order of their nonces. */
  async function signed({ count = 1 } = {}): Promise<{ id: string; raw: Hex; hash: Hex }[]> {
    const from = wallet.account.address;
    const prepared = await world.adapter().prepare({ from, to: recipient, token: world.eth, amountMinor: 1n });
    if (prepared.outcome !== 'ready') throw new Error(prepared.message);
    const payments: { id: string; raw: Hex; hash: Hex }[] = [];
    for (let index = 0; index < count; index += 1) {
      const row = await world.payment({ wallet, to: recipient, token: world.eth, amountMinor: 1n });
      const { raw, hash } = await signPayment({ wallet, row, prepared, nonce: prepared.minedCount + index });
      payments.push({ id: row.id, raw, hash });
    }
    return payments;
  }
  /** Repeats as Temporal does. */
  const broadcast = (adapter: ChainAdapter, { id, raw, hash }: { id: string; raw: Hex; hash: Hex }) =>
    until(
      () =>
        activities(adapter)
          .broadcast({ transactionId: id, raw, hash })
          .then(({ outcome }) => outcome)
          .catch((error: Error) => error.name),
      (outcome) => outcome !== 'RpcUnavailable',
      { timeoutMs: 30_000 },
    );
  async function send(adapter: ChainAdapter, { count = 1 } = {}) {
    const payments = await signed({ count });
    for (const each of payments) expect(await broadcast(adapter, each)).toBe('sent');
    return payments;
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
  /** Waits until the watcher has asked an endpoint that works for the head many times more. */
  async function untilLooked(proxy = proxies[1]!): Promise<void> {
    const looks = proxy.requests('eth_getBlockByNumber');
    await until(
      async () => proxy.requests('eth_getBlockByNumber') - looks,
      (seen) => seen >= manyLooks,
    );
  }
  async function expectTrueFacts({ id, hash }: { id: string; hash: Hex }): Promise<void> {
    const receipt = await world.node.getTransactionReceipt({ hash });
    expect(await attempt(id)).toMatchObject({
      succeeded: receipt.status === 'success',
      block_hash: receipt.blockHash,
      block_number: receipt.blockNumber.toString(),
      fee_minor: (receipt.gasUsed * receipt.effectiveGasPrice).toString(),
      final_at: expect.any(Date),
    });
  }

  // First: what the other node takes over must be small.
  describe('on two branches', () => {
    let old: TestChain;
    beforeEach(async () => {
      old = await startTestChain();
    });
    afterEach(() => old.stop());

    it('goes with most when one of three still shows the old branch (F47)', async () => {
      const stale = await startRpcProxy({ target: old.rpcUrl });
      const adapter = world.adapter({ confirmations: 5, urls: [stale.url, proxies[1]!.url, proxies[2]!.url] });
      stale.set({ down: true });
      watch(adapter);
      const [payment] = await send(adapter);
      await mine();
      const included = await untilIncluded(payment!.id);
      await mine(2);
      // The other node takes over everything as it is now, and keeps it.
      await copyState(world.local.rpcUrl, old.rpcUrl);
      stale.set({});
      await world.node.request({ method: 'anvil_reorg' as never, params: [3, []] as never });
      await until(
        () => attempt(payment!.id),
        (seen) => seen.block_hash === null,
      );
      await mine();
      await until(
        () => attempt(payment!.id),
        (seen) => seen.block_hash !== null && seen.block_hash !== included.block_hash,
      );
      expect(woken).toEqual([]);
      await mine(4);
      await untilFinal([payment!.id]);
      await expectTrueFacts(payment!);
      await stale.stop();
    });
  });

  it.each<[string, RpcFaults]>([
    ['is down', { down: true }],
    ['hangs', { hang: true }],
    ['limits us', { status: 429, retryAfter: '60' }],
    ['loses every second answer', { dropAnswers: 0.5 }],
    ['lags', { lagBlocks: 3 }],
    ['is slow', { delayMs: [200, 400] }],
  ])('costs no payment when one of three %s', async (_, fault) => {
    set(fault);
    const adapter = connect({ confirmations: 2 });
    watch(adapter);
    const payments = await send(adapter, { count: 5 });
    await mine(2);
    await untilFinal(payments.map(({ id }) => id));
    for (const each of payments) await expectTrueFacts(each);
  });

  it('sends and confirms 50 payments after all endpoints were down (F3)', async () => {
    const adapter = connect();
    watch(adapter);
    const payments = await signed({ count: 50 });
    set({ down: true }, { down: true }, { down: true });
    let failures = 0;
    const down = { ...adapter, send: (p: { raw: string }) => adapter.send(p).catch((error) => fail(error)) };
    function fail(error: unknown): never {
      failures += 1;
      throw error;
    }
    const sent = Promise.all(payments.map((each) => broadcast(down, each)));
    await until(
      async () => failures,
      (seen) => seen >= payments.length,
    );
    set({}, {}, {});
    expect(await sent).toEqual(payments.map(() => 'sent'));
    await mine();
    await untilFinal(payments.map(({ id }) => id));
    expect(await world.node.getTransactionCount({ address: wallet.account.address })).toBe(50);
  });

  it.each<[string, RpcFaults]>([
    ['lags', { lagBlocks: 5 }],
    ['says less', { answer: (method, _, answer) => counting(method, answer, '0x0') }],
    ['says more', { answer: (method, _, answer) => counting(method, answer, '0x999') }],
  ])('neither lowers nor raises a nonce when one endpoint %s (F48)', async (_, fault) => {
    await send(world.adapter(), { count: 3 });
    await mine();
    set(fault);
    const from = wallet.account.address;
    const prepared = await connect().prepare({ from, to: recipient, token: world.eth, amountMinor: 1n });
    expect(prepared).toMatchObject({ outcome: 'ready', minedCount: 3 });
  });
  function counting(method: string, answer: RpcAnswer, count: string): RpcAnswer {
    return method === 'eth_getTransactionCount' ? { result: count } : answer;
  }

  it('does not confirm before most endpoints have seen the depth (F48)', async () => {
    const adapter = connect({ confirmations: 3 });
    watch(adapter);
    const [payment] = await send(adapter);
    await mine();
    await untilIncluded(payment!.id);
    set({}, { lagBlocks: 2 }, { lagBlocks: 2 });
    await mine(2);
    await untilLooked();
    expect(woken).toEqual([]);
    set({}, {}, { lagBlocks: 2 });
    await untilFinal([payment!.id]);
  });

  it('does not take one endpoint at its word about the newest block', async () => {
    const adapter = connect({ confirmations: 3 });
    watch(adapter);
    const [payment] = await send(adapter);
    await mine();
    await untilIncluded(payment!.id);
    const ahead = (method: string, params: readonly unknown[], answer: RpcAnswer): RpcAnswer =>
      method === 'eth_getBlockByNumber' && params[0] === 'latest' && 'result' in answer
        ? { result: { ...(answer.result as object), number: '0xfffff', hash: `0x${'22'.repeat(32)}` } }
        : answer;
    set({ answer: ahead });
    await untilLooked();
    expect(woken).toEqual([]);
    await mine(2);
    await untilFinal([payment!.id]);
  });

  it.each<[string, Record<string, string>]>([
    ['another block', { blockHash: `0x${'33'.repeat(32)}` }],
    ['a number before', { blockNumber: '0x1' }],
    ['a number far ahead', { blockNumber: '0xffffff' }],
    ['failed for succeeded', { status: '0x0' }],
    ['another fee', { effectiveGasPrice: '0x1' }],
  ])('believes no single endpoint about a receipt: %s', async (_, lie) => {
    const liar: RpcFaults = {
      answer: (method, __, answer) =>
        method === 'eth_getTransactionReceipt' && 'result' in answer && answer.result
          ? { result: { ...answer.result, ...lie } }
          : answer,
    };
    set(liar);
    const adapter = connect({ confirmations: 2 });
    watch(adapter);
    const [payment] = await send(adapter);
    await mine();
    await untilIncluded(payment!.id);
    await mine();
    await untilFinal([payment!.id]);
    await expectTrueFacts(payment!);
    // The slow way comes to the same.
    const [other] = await send(adapter);
    await mine(2);
    await until(
      () => activities(adapter).checkChain(other!.id),
      ({ state }) => state === 'final',
    );
    await expectTrueFacts(other!);
  });

  it('believes no single endpoint that a payment is not there, or that another stands at its nonce', async () => {
    const [foreign] = await send(world.adapter());
    await mine();
    const adapter = connect({ confirmations: 1 });
    const [payment] = await send(adapter);
    await mine();
    const owner = { from: wallet.account.address, nonce: '0x1', to: recipient, value: '0x7', input: '0x' };
    let claims = 0;
    set({
      answer: (method, params, answer) => {
        if (method === 'eth_getTransactionReceipt' || method === 'eth_getTransactionByHash') return { result: null };
        if (method === 'eth_sendRawTransaction') return { error: { code: -32_000, message: 'nonce too low' } };
        if (method !== 'eth_getBlockByNumber' || params[1] !== true || !('result' in answer)) return answer;
        claims += 1;
        return { result: { ...(answer.result as object), transactions: [{ ...owner, hash: foreign!.hash }] } };
      },
    });
    await until(
      async () => {
        expect(await connect().slotOwner({ raw: payment!.raw })).not.toMatchObject({ samePayment: false });
        return claims;
      },
      (seen) => seen > 0,
    );
    expect(await activities(adapter).checkChain(payment!.id)).toEqual({ state: 'final' });
    set({}, {}, {});
    expect(await adapter.slotOwner({ raw: payment!.raw })).toMatchObject({ samePayment: true });
  });

  it('with two endpoints makes final only what both say, and waits for the second', async () => {
    set({}, { down: true });
    const adapter = connect({ count: 2 });
    const said: string[] = [];
    const write = (_: unknown, text: string) => said.push(text);
    watch(adapter, { info: write, warn: write } as unknown as Logger);
    const [payment] = await send(adapter);
    await mine();
    await untilIncluded(payment!.id);
    await untilLooked(proxies[0]!);
    expect(await attempt(payment!.id)).toMatchObject({ final_at: null });
    expect(await world.transaction(payment!.id)).toMatchObject({ status: 'pending', status_detail: 'confirming' });
    await until(
      async () => said.slice(1),
      (lines) => lines.length === 1,
    );
    set({}, {});
    await untilFinal([payment!.id]);
    await until(
      async () => said.slice(1),
      (lines) => lines.length === 2,
    );
    expect(said.slice(1)).toEqual([
      'too few endpoints agree about payments that are due; asking again',
      'the endpoints agree about what is due',
    ]);
  });
});

async function copyState(from: string, to: string): Promise<void> {
  const call = async (url: string, method: string, params: unknown[]) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const reply = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { result, error } = (await reply.json()) as { result: unknown; error?: { message: string } };
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  };
  const state = await call(from, 'anvil_dumpState', [true]);
  expect(await call(to, 'anvil_loadState', [state])).toBe(true);
  const head = (url: string) => call(url, 'eth_getBlockByNumber', ['latest', false]);
  expect(await head(to)).toEqual(await head(from));
}
