import type { Address } from 'viem';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createCheckAuthorization } from '../../activities/check-authorization.ts';
import { type BlockWatcher, createBlockWatcher } from '../../activities/watch-blocks.ts';
import type { ChainAdapter } from '../../shared/chain/adapter.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { inTransaction } from '../../shared/db/pool.ts';
import { getX402Payment, type X402PaymentRow } from '../../shared/db/x402-payments.ts';
import { getSession, type SessionRow } from '../../shared/db/x402-sessions.ts';
import { createLogger } from '../../shared/log.ts';
import { endX402Payment, releaseSession } from '../../shared/x402-budget.ts';
import { type ChainWorld, createChainWorld, type TestWallet, until } from '../support/chain-world.ts';
import type { RpcAnswer } from '../support/lagging-node.ts';
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts';
import {
  createFacilitator,
  type Facilitator,
  insertTestSession,
  insertTestX402,
  takenMinor,
} from '../support/x402-rows.ts';

const logger = createLogger({ process: 'test', level: 'silent' });
const yes = `0x${'1'.padStart(64, '0')}`;
const no = `0x${'0'.padStart(64, '0')}`;
const taken = takenMinor.toString();

describe('what becomes of an authorisation', () => {
  let world: ChainWorld;
  let facilitator: Facilitator;
  let wallet: TestWallet;
  let session: SessionRow;
  const woken: string[] = [];
  const watchers: BlockWatcher[] = [];
  const proxies: RpcProxy[] = [];
  beforeAll(async () => {
    world = await createChainWorld();
    facilitator = await createFacilitator(world);
  });
  afterAll(() => world.close());
  beforeEach(async () => {
    await world.node.setAutomine(true);
    wallet = await world.wallet();
    session = await insertTestSession(world.pool, wallet, { asset: world.usdc.asset as Address });
    await world.node.setAutomine(false);
    woken.length = 0;
  });
  afterEach(async () => {
    await Promise.all(watchers.splice(0).map((each) => each.stop()));
    await Promise.all(proxies.splice(0).map((each) => each.stop()));
    // Whatever has become of them, sums agree; what one test leaves open is not the next one's business.
    expect(await findMismatches(world.pool)).toEqual([]);
    await world.node.setAutomine(true);
    await world.node.increaseTime({ seconds: 400 });
    await world.node.mine({ blocks: 12 });
    const open = await world.pool.query(`select id from x402_payments where settlement = 'unsettled'`);
    for (const { id } of open.rows) await check(id);
  });

  const mine = (blocks = 1) => world.node.mine({ blocks });
  /** Blocks so that the newest one is later than the authorisation, by a second. */
  const mineAfter = async ({ valid_before }: X402PaymentRow, blocks = 1) => {
    await world.node.setNextBlockTimestamp({ timestamp: BigInt(valid_before!) + 1n });
    await mine(blocks);
  };
  const check = async (id: string, adapter: ChainAdapter = world.adapter()) => {
    const checkAuthorization = createCheckAuthorization({
      pool: world.pool,
      chains: new Map([[world.local.chain, adapter]]),
    });
    return (await checkAuthorization(id)).state;
  };
  /** A payment with an authorisation that is good for some seconds of the chain's time from now. */
  async function stamped({
    seconds = 60,
    ...o
  }: {
    seconds?: number;
    isIssued?: boolean;
  } = {}): Promise<X402PaymentRow> {
    const now = Number((await world.node.getBlock()).timestamp);
    const stamp = { validAfter: now - 600, validBefore: now + seconds };
    return insertTestX402(world.pool, { session, from: wallet.account.address, stamp, ...o });
  }
  const use = (payment: X402PaymentRow) => facilitator.use({ payment, wallet });
  const findPayment = async (id: string) => (await getX402Payment(world.pool, { id }))!;
  const spent = async () => (await getSession(world.pool, { id: session.id }))!.spent_minor;
  const holds = async (id: string) =>
    (await world.pool.query('select amount_minor, closed_block from holds where owner_id = $1', [id])).rows;
  const reservationState = async (id: string) =>
    (await world.pool.query('select state from reservations where payment_id = $1', [id])).rows[0].state;
  function watch(adapter: ChainAdapter = world.adapter()): BlockWatcher {
    const wake = async (id: string) => {
      woken.push(id);
    };
    const watcher = createBlockWatcher({ pool: world.pool, adapter, wake, logger });
    watchers.push(watcher);
    watcher.start();
    return watcher;
  }
  const untilSettled = (ids: readonly string[]) =>
    until(
      async () => Promise.all(ids.map((id) => findPayment(id))),
      (seen) => seen.every((each) => each.settlement === 'settled'),
    );
  /** Endpoints in front of the one node, each of which may fail in its own way. */
  async function endpoints(count: number): Promise<RpcProxy[]> {
    const started = await Promise.all(
      Array.from({ length: count }, () => startRpcProxy({ target: world.local.rpcUrl })),
    );
    proxies.push(...started);
    return started;
  }
  const through = (some: readonly RpcProxy[], o: { confirmations?: number } = {}) =>
    world.adapter({ urls: some.map(({ url }) => url), ...o });
  /** As some public endpoints are. */
  const shortSighted = {
    answer(method: string, [filter]: readonly unknown[], answer: RpcAnswer): RpcAnswer {
      const { fromBlock, toBlock } = (filter ?? {}) as { fromBlock?: string; toBlock?: string };
      const isLong = method === 'eth_getLogs' && Number(toBlock) - Number(fromBlock) >= 10;
      return isLong ? { error: { code: -32_602, message: 'up to a 10 block range' } } : answer;
    },
  };
  const saying = (method: string, result: unknown) => ({
    answer: (asked: string, _: readonly unknown[], answer: RpcAnswer) => (asked === method ? { result } : answer),
  });

  async function expectSettled(payment: X402PaymentRow, txHash: string): Promise<void> {
    const receipt = await world.node.getTransactionReceipt({ hash: txHash as `0x${string}` });
    expect(await findPayment(payment.id)).toMatchObject({
      status: 'completed',
      settlement: 'settled',
      tx_hash: txHash,
      block_number: String(receipt.blockNumber),
      settled_at: expect.any(Date),
    });
    expect(await holds(payment.id)).toEqual([
      { amount_minor: payment.amount_minor, closed_block: String(receipt.blockNumber) },
    ]);
    expect(await reservationState(payment.id)).toBe('settled');
  }
  async function expectGivenBack(payment: X402PaymentRow): Promise<void> {
    expect(await findPayment(payment.id)).toMatchObject({ settlement: 'expired', tx_hash: null });
    expect(await holds(payment.id)).toEqual([]);
    expect(await reservationState(payment.id)).toBe('released');
  }
  async function expectOpen(payment: X402PaymentRow): Promise<void> {
    expect(await findPayment(payment.id)).toMatchObject({ settlement: 'unsettled' });
    expect(await holds(payment.id)).toEqual([{ amount_minor: taken, closed_block: null }]);
    expect(await reservationState(payment.id)).toBe('reserved');
  }

  describe('as the watcher sees it', () => {
    it('is over once a final block is past its end, also where many are, and their workflows woken', async () => {
      watch();
      const [kept, used] = [await stamped(), await stamped()];
      await use(used);
      await mine();
      // From now on it goes on from block to block.
      await untilSettled([used.id]);
      const past = Math.floor(Date.now() / 1000) - 5;
      const stamp = { validAfter: past - 600, validBefore: past };
      const over = await Promise.all(
        Array.from({ length: 25 }, () =>
          insertTestX402(world.pool, { session, from: wallet.account.address, stamp, isIssued: true }),
        ),
      );
      await mine();
      await until(
        async () => Promise.all(over.map(({ id }) => findPayment(id))),
        (seen) => seen.every(({ settlement }) => settlement === 'expired'),
      );
      await until(
        async () => over.filter(({ id }) => !woken.includes(id)),
        (missing) => missing.length === 0,
      );
      await expectOpen(kept);
    });

    it('is settled by the transaction that used it, and its workflow woken', async () => {
      watch();
      const payment = await stamped();
      const hash = await use(payment);
      await mine();
      await untilSettled([payment.id]);
      await until(
        async () => woken,
        (seen) => seen.includes(payment.id),
      );
      await expectSettled(payment, hash);
      expect(await spent()).toBe(taken);
    });

    it('is settled only once its block is final', async () => {
      watch(world.adapter({ confirmations: 4 }));
      const payment = await stamped();
      const hash = await use(payment);
      await mine(3);
      const { hash: head } = await world.node.getBlock();
      await until(
        async () => (await world.pool.query('select from chain_heads where hash = $1', [head])).rowCount,
        (seen) => seen === 1,
      );
      await expectOpen(payment);
      await mine();
      await untilSettled([payment.id]);
      await expectSettled(payment, hash);
    });

    it('costs one question a block for all that are open, and none when none is', async () => {
      const [endpoint] = await endpoints(1);
      const first = await stamped();
      watch(through([endpoint!]));
      await use(first);
      await mine();
      await untilSettled([first.id]);
      const payments: X402PaymentRow[] = [];
      for (let index = 0; index < 30; index += 1) payments.push(await stamped());
      // The first look after a sleep asks about each; from there on events tell.
      const { hash: head } = await world.node.getBlock();
      await mine();
      await until(
        async () => (await world.pool.query('select from chain_heads where hash <> $1', [head])).rowCount,
        (seen) => seen === 1,
      );
      const before = endpoint!.requests('eth_call');
      for (const payment of payments) await use(payment);
      await mine();
      await untilSettled(payments.map(({ id }) => id));
      expect(endpoint!.requests('eth_call') - before).toBeLessThan(5);
      await until(
        async () => woken.length,
        (seen) => seen > 30,
      );
      // The looks for the newest block are as many as there is time for.
      const looks = () => endpoint!.requests('eth_getBlockByNumber') + endpoint!.requests('eth_blockNumber');
      const questions = () => endpoint!.requests() - looks();
      const asked = questions();
      await mine(3);
      const again = await stamped();
      await use(again);
      await mine();
      await untilSettled([again.id]);
      expect(questions() - asked).toBeLessThan(40);
    });

    it.each([
      ['a few blocks', 3],
      ['more blocks than are read one by one', 1_200],
    ])('is found after a stop for %s', async (_, blocks) => {
      const payment = await stamped({ seconds: 280 });
      const hash = await use(payment);
      await mine();
      await world.node.mine({ blocks, interval: 0 });
      watch();
      await untilSettled([payment.id]);
      await expectSettled(payment, hash);
    });

    it('is found on a connection that was lost and taken again', async () => {
      watch();
      const payment = await stamped();
      await until(
        async () =>
          world.pool.query(
            `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and datname = current_database()`,
            [`watcher ${world.local.chain}`],
          ),
        ({ rowCount }) => (rowCount ?? 0) > 0,
      );
      await use(payment);
      await mine();
      await untilSettled([payment.id]);
    });

    it('is not settled by a block that the chain replaces', async () => {
      watch(world.adapter({ confirmations: 4 }));
      const payment = await stamped({ seconds: 100 });
      const other = await stamped({ seconds: 100 });
      await use(payment);
      await mine(2);
      // Another branch, without the transaction.
      await world.node.request({ method: 'anvil_reorg' as never, params: [2, []] as never });
      const hash = await use(other);
      await mine(5);
      await untilSettled([other.id]);
      await expectSettled(other, hash);
      await expectOpen(payment);
      await mineAfter(payment, 5);
      expect(await check(payment.id, world.adapter({ confirmations: 4 }))).toBe('over');
      await expectGivenBack(payment);
    });
  });

  describe('as the chain says when it is asked', () => {
    it('is open while it can be used, settled when it was, over when it was not', async () => {
      const [used, unused] = [await stamped(), await stamped()];
      expect(await check(used.id)).toBe('open');
      const hash = await use(used);
      await mine();
      expect(await check(used.id)).toBe('settled');
      await expectSettled(used, hash);
      expect(await check(unused.id)).toBe('open');
      await expectOpen(unused);
      await mineAfter(unused);
      expect(await check(unused.id)).toBe('over');
      await expectGivenBack(unused);
      expect(await spent()).toBe(taken);
      expect([await check(used.id), await check(unused.id)]).toEqual(['settled', 'over']);
    });

    it('is given back only when a final block is later than its last second', async () => {
      const payment = await stamped();
      const deep = world.adapter({ confirmations: 4 });
      await world.node.setNextBlockTimestamp({ timestamp: BigInt(payment.valid_before!) });
      await mine();
      expect(await check(payment.id)).toBe('open');
      await mineAfter(payment, 3);
      expect(await check(payment.id, deep)).toBe('open');
      await expectOpen(payment);
      await mine();
      expect(await check(payment.id, deep)).toBe('over');
    });

    it('is settled when it was used in its last second and is asked about after', async () => {
      const payment = await stamped();
      const hash = await use(payment);
      await world.node.setNextBlockTimestamp({ timestamp: BigInt(payment.valid_before!) - 1n });
      await mine();
      await mineAfter(payment, 600);
      expect(await check(payment.id)).toBe('settled');
      await expectSettled(payment, hash);
    });

    it('is not settled by a transaction that was reverted for being late', async () => {
      const payment = await stamped();
      await use(payment);
      await mineAfter(payment);
      expect(await check(payment.id)).toBe('over');
      await expectGivenBack(payment);
    });

    it('is given back once, whoever finds it, and however many', async () => {
      const payment = await stamped();
      const other = await stamped();
      watch();
      await mineAfter(payment);
      const states = await Promise.all(Array.from({ length: 8 }, () => check(payment.id)));
      expect(new Set(states)).toEqual(new Set(['over']));
      expect(BigInt(await spent())).toBe((await findPayment(other.id)).settlement === 'expired' ? 0n : BigInt(taken));
      await check(other.id);
      expect(await spent()).toBe('0');
    });

    it('leaves a payment that was not handed out free to have another one, or ends it', async () => {
      const [again, ending] = [await stamped({ isIssued: false }), await stamped({ isIssued: false })];
      const failure = { code: 'agent_inactive' as const, message: 'The agent is inactive.' };
      await inTransaction(world.pool, (db) => endX402Payment(db, ending, failure));
      expect(await check(ending.id)).toBe('open');
      await mineAfter(ending);
      expect([await check(again.id), await check(ending.id)]).toEqual(['again', 'over']);
      expect(await findPayment(again.id)).toMatchObject({ status: 'pending', auth_nonce: null, settlement: null });
      expect(await reservationState(again.id)).toBe('reserved');
      expect(await findPayment(ending.id)).toMatchObject({ status: 'failed', failure_code: 'agent_inactive' });
      await expectGivenBack(ending);
      expect(await spent()).toBe(taken);
      const events = await world.pool.query('select type, data from events where resource_id = $1', [ending.id]);
      expect(events.rows).toMatchObject([
        { type: 'x402.payment.failed', data: { ledger_id: ending.id, failure_code: 'agent_inactive' } },
      ]);
      await inTransaction(world.pool, (db) => endX402Payment(db, { ...again, auth_nonce: null }, failure));
    });

    it('believes the chain when it was used though we have not handed it out', async () => {
      const payment = await stamped({ isIssued: false });
      await use(payment);
      await mine();
      expect(await check(payment.id)).toBe('settled');
      expect(await findPayment(payment.id)).toMatchObject({ status: 'completed', settlement: 'settled' });
      const events = await world.pool.query('select type from events where resource_id = $1', [payment.id]);
      expect(events.rows).toEqual([{ type: 'x402.payment.completed' }]);
    });

    it('goes back to a session that has ended as nothing held', async () => {
      const payment = await stamped();
      await inTransaction(world.pool, (db) => releaseSession(db, { session, by: 'deletion' }));
      await expectOpen(payment);
      await mineAfter(payment);
      expect(await check(payment.id)).toBe('over');
      expect([await holds(payment.id), await holds(session.id)]).toEqual([[], []]);
      expect(await spent()).toBe('0');
    });
  });

  describe('whatever single endpoints say', () => {
    it.each([
      ['one of three', 3, 'settled'],
      ['one of two', 2, 'open'],
    ] as const)('is used though %s says that it is not', async (_, count, state) => {
      const [liar, ...others] = await endpoints(count);
      const payment = await stamped();
      const hash = await use(payment);
      await mine();
      await mineAfter(payment);
      liar!.set(saying('eth_call', no));
      expect(await check(payment.id, through([liar!, ...others]))).toBe(state);
      if (state === 'settled') await expectSettled(payment, hash);
      else await expectOpen(payment);
    });

    it.each([
      ['one of three', 3, 'over'],
      ['one of two', 2, 'open'],
    ] as const)('is unused though %s says that it was used', async (_, count, state) => {
      const [liar, ...others] = await endpoints(count);
      const payment = await stamped();
      await mineAfter(payment);
      liar!.set(saying('eth_call', yes));
      expect(await check(payment.id, through([liar!, ...others]))).toBe(state);
    });

    it('is not over because one shows a later block', async () => {
      const [liar, ...others] = await endpoints(3);
      const payment = await stamped();
      await mine();
      liar!.set({
        answer: (method, _, answer) =>
          method === 'eth_getBlockByNumber' && 'result' in answer && answer.result
            ? { result: { ...(answer.result as object), timestamp: '0xffffffffff' } }
            : answer,
      });
      expect(await check(payment.id, through([liar!, ...others]))).toBe('open');
      await expectOpen(payment);
    });

    it('is not over for most endpoints that lag behind, until they have the block', async () => {
      const [fast, ...lagging] = await endpoints(3);
      const payment = await stamped();
      await use(payment);
      await mine();
      for (const each of lagging) each.set({ lagBlocks: 2 });
      const adapter = through([fast!, ...lagging]);
      await mineAfter(payment);
      expect(await check(payment.id, adapter)).toBe('open');
      await mine(2);
      expect(await check(payment.id, adapter)).toBe('settled');
    });

    it('is settled by what most say, where one makes up a transaction', async () => {
      const [liar, ...others] = await endpoints(3);
      const adapter = through([liar!, ...others]);
      const [used, unused] = [await stamped(), await stamped()];
      const made = `0x${'ab'.repeat(32)}`;
      liar!.set({
        answer: (method, _, answer) =>
          method === 'eth_getLogs' && 'result' in answer
            ? {
                result: (answer.result as { transactionHash: string; topics: string[] }[]).flatMap((log) => [
                  { ...log, transactionHash: made },
                  { ...log, topics: [...log.topics.slice(0, 2), unused.auth_nonce!], transactionHash: made },
                ]),
              }
            : answer,
      });
      watch(adapter);
      // The first look asks about each; from there on events tell.
      await until(
        async () => Math.min(...[liar!, ...others].map((each) => each.requests('eth_call'))),
        (seen) => seen >= 2,
      );
      const hash = await use(used);
      await mine();
      await untilSettled([used.id]);
      await expectSettled(used, hash);
      await expectOpen(unused);
    });

    it('is found through endpoints that tell of ten blocks at a time', async () => {
      const some = await endpoints(2);
      for (const each of some) each.set(shortSighted);
      const payment = await stamped({ seconds: 280 });
      await mine(30);
      const hash = await use(payment);
      await mine(40);
      expect(await check(payment.id, through(some))).toBe('settled');
      await expectSettled(payment, hash);
    });

    it('waits for endpoints that have the block and not its events yet', async () => {
      const hiding = await endpoints(3);
      for (const each of hiding.slice(0, 2)) each.set(saying('eth_getLogs', null));
      watch(through(hiding));
      const first = await stamped();
      await until(
        async () => hiding[2]!.requests('eth_call'),
        (seen) => seen > 0,
      );
      const hash = await use(first);
      await mine();
      await until(
        async () => hiding[2]!.requests('eth_getLogs'),
        (seen) => seen > 0,
      );
      await expectOpen(first);
      for (const each of hiding) each.set({});
      await mine();
      await untilSettled([first.id]);
      await expectSettled(first, hash);
    });
  });
});
