import { generateKeyPairSync } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createAllot } from '../../activities/allot.ts';
import { createAllotReplacement } from '../../activities/allot-replacement.ts';
import { createBroadcast } from '../../activities/broadcast.ts';
import { createCheckChain } from '../../activities/check-chain.ts';
import { createEvaluatePolicy } from '../../activities/evaluate-policy.ts';
import type { Allotment } from '../../activities/issue-receipt.ts';
import { createPrepare } from '../../activities/prepare.ts';
import { createQuoteReplacement } from '../../activities/quote-replacement.ts';
import { createSettle } from '../../activities/settle.ts';
import type { ChainAdapter } from '../../shared/chain/adapter.ts';
import { bitcoinFamily } from '../../shared/chain/bitcoin/family.ts';
import { RpcUnavailable } from '../../shared/chain/errors.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { inTransaction } from '../../shared/db/pool.ts';
import { findSlot } from '../../shared/db/slots.ts';
import type { BitcoinTransaction } from '../../shared/domain/receipt.ts';
import { importReceiptKey } from '../../shared/receipt.ts';
import { cancelPayment, speedUpPayment } from '../../shared/replace-payment.ts';
import { payee } from '../support/bitcoin-payees.ts';
import { type BitcoinWallet, type BitcoinWorld, createBitcoinWorld, signBitcoin } from '../support/bitcoin-world.ts';
import { type EsploraProxy, type Liar, startEsploraProxy } from '../support/esplora-proxy.ts';
import { patiently } from '../support/patience.ts';

/** What the node asks for while it asks for much, and what a payment offers by itself. */
const [dearSatPerKvb, usualSatPerKvb] = [20_000, 2_000];
const { privateKey } = generateKeyPairSync('ed25519');

/** Asks again, as Temporal would: a server that takes longer than an adapter waits is no matter of these tests. */
function persistent(adapter: ChainAdapter): ChainAdapter {
  return new Proxy(adapter, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return async (...p: unknown[]) => {
        for (let attempt = 1; ; attempt += 1) {
          try {
            return await value.apply(target, p);
          } catch (error) {
            if (!(error instanceof RpcUnavailable) || attempt === 10) throw error;
          }
        }
      };
    },
  });
}

/** The node starts anew where it is to ask for something else. */
const slow = { timeout: 300_000 };

describe('a Bitcoin payment that nodes refuse as too cheap when it is first sent', slow, () => {
  let world: BitcoinWorld;
  let proxy: EsploraProxy;
  let wallet: BitcoinWallet;
  let policyKey: Awaited<ReturnType<typeof importReceiptKey>>;
  const to = payee('p2wpkh');
  beforeAll(async () => {
    world = await createBitcoinWorld();
    proxy = await startEsploraProxy({ target: world.bitcoin.url });
    policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
    // While the node takes what the treasury offers.
    for (let count = 0; count < 8; count += 1) wallets.push(await world.wallet({ coinsSat: [3_000_000n, 3_000_000n] }));
  });
  afterAll(async () => {
    await proxy.stop();
    await world.close();
  });
  const wallets: BitcoinWallet[] = [];
  beforeEach(() => {
    wallet = wallets.pop()!;
  });
  afterEach(() => proxy.set({}));

  let isDear = false;
  async function askFor(wanted: 'much' | 'little') {
    if (isDear !== (wanted === 'much'))
      await world.bitcoin.restart(wanted === 'much' ? { leastSatPerKvb: dearSatPerKvb } : {});
    isDear = wanted === 'much';
  }
  const dear = () => askFor('much');
  const cheap = () => askFor('little');
  const estimate: (satPerVbyte: number) => Liar = (satPerVbyte) => (path, answer) =>
    path === '/fee-estimates' ? { status: 200, body: { '3': satPerVbyte } } : answer;
  /** In place of btcd, which names no amount for so small a transaction: what Bitcoin Core says. */
  const inWordsOfCore: Liar = (path, answer) => {
    if (path !== '/tx' || !String(answer.body).includes('low fees')) return answer;
    const error = { code: -26, message: `min relay fee not met, 416 < ${neededSat}` };
    return { status: 400, body: `sendrawtransaction RPC error: ${JSON.stringify(error)}` };
  };
  /** For the two inputs and two outputs of each payment here, with the longest signatures. */
  const neededSat = (dearSatPerKvb * 209) / 1000;

  function steps({
    ceilingSatPerKvb = 100_000n,
    urls = [proxy.url],
  }: {
    ceilingSatPerKvb?: bigint;
    urls?: readonly string[];
  } = {}) {
    const { pool } = world;
    const chains = new Map([[world.chain.id, persistent(world.adapter({ urls, ceilingSatPerKvb }))]]);
    const onChain = { pool, chains, ...patiently };
    const inDatabase = { pool, clock: databaseClock, policyKey };
    return {
      evaluatePolicy: createEvaluatePolicy({ pool, clock: databaseClock }),
      prepare: createPrepare(onChain),
      allot: createAllot({ ...inDatabase, maxInFlight: 16 }),
      quote: createQuoteReplacement({ pool, chains }),
      allotReplacement: createAllotReplacement(inDatabase),
      broadcast: createBroadcast(onChain),
      checkChain: createCheckChain(onChain),
      settle: createSettle({ pool }),
    };
  }
  type Steps = Parameters<typeof steps>[0];
  const transactionOf = ({ payload }: Allotment): BitcoinTransaction => {
    if (payload.kind !== 'bitcoin-transaction') throw new Error(payload.kind);
    return payload.transaction;
  };
  const sign = (allotment: Allotment) => signBitcoin({ wallet, transaction: transactionOf(allotment) });
  const slot = async (id: string) => (await findSlot(world.pool, { transactionId: id }))!;
  const rateOf = (transaction: BitcoinTransaction, vsize: number) =>
    (Number(bitcoinFamily.maxFeeOf({ kind: 'bitcoin-transaction', transaction })) * 1000) / vsize;
  const ask = async (id: string, work: typeof cancelPayment | typeof speedUpPayment) => {
    const found = await world.transaction(id);
    return inTransaction(world.pool, (db) => work(db, found));
  };

  /** A payment that is signed at the usual rate, of both coins. */
  async function signed() {
    const { evaluatePolicy, prepare, allot } = steps();
    const { id } = await world.payment({ wallet, to, amountMinor: 4_000_000n });
    await evaluatePolicy(id);
    const ready = await prepare(id);
    if (ready.outcome !== 'ready') throw new Error(JSON.stringify(ready));
    const given = await allot(id, ready);
    if (given.outcome !== 'allotted') throw new Error(JSON.stringify(given));
    const transaction = transactionOf(given.allotment);
    const bytes = sign(given.allotment);
    expect(rateOf(transaction, bytes.vsize)).toBeLessThan(usualSatPerKvb * 1.1);
    return { id, transaction, ...bytes };
  }
  /** The same, and refused. */
  async function refused(o?: Steps) {
    const payment = await signed();
    await dear();
    const { id, raw, hash } = payment;
    return { ...payment, said: await steps(o).broadcast({ transactionId: id, raw, hash }) };
  }
  async function replaced(id: string, { floor, ...o }: Steps & { floor?: string | undefined } = {}) {
    const { allotReplacement, quote, broadcast } = steps(o);
    const given = await allotReplacement(id, await quote(id, floor));
    if (given.outcome !== 'allotted') return given;
    const bytes = sign(given.allotment);
    const said = await broadcast({ transactionId: id, ...bytes, version: given.version });
    return { ...said, ...bytes, transaction: transactionOf(given.allotment) };
  }
  async function finished(id: string) {
    await world.bitcoin.mine();
    expect(await steps().checkChain(id)).toEqual({ state: 'final' });
    await steps().settle(id);
    expect(await findMismatches(world.pool)).toEqual([]);
    return world.transaction(id);
  }

  it('is replaced, where fees have risen: the same coins at the rate of now, and paid once', async () => {
    const before = await signed();
    await dear();
    proxy.set({ answer: estimate(25) });
    const { id, raw, hash } = before;
    expect(await steps().broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'underpriced' });
    expect(await world.attempts(id)).toMatchObject([{ hash, raw, sent_at: null }]);
    expect((await world.transaction(id)).notice).toMatch(
      /^Nodes ask for more than the transaction offers: .*low fees\. One that offers more is being signed in its place\.$/,
    );
    expect(await steps().settle(id)).toEqual({ state: 'open', replace: true });
    const after = await replaced(id);
    if (!('transaction' in after)) throw new Error(after.outcome);
    expect(after.outcome).toBe('sent');
    expect(after.transaction.inputs).toEqual(before.transaction.inputs);
    expect(after.transaction.outputs[0]).toEqual(before.transaction.outputs[0]);
    expect(rateOf(after.transaction, after.vsize)).toBeGreaterThanOrEqual(25_000);
    expect(await steps().settle(id)).toEqual({ state: 'open' });
    expect(await finished(id)).toMatchObject({ status: 'confirmed', hash: after.hash, notice: null });
    expect((await world.attempts(id)).map((each) => each.block_number !== null)).toEqual([true, false]);
  });

  it('is replaced by as much as the node names, where no server has an estimate', async () => {
    proxy.set({ answer: inWordsOfCore });
    const { id, said, vsize } = await refused();
    const floor = String(Math.ceil((neededSat * 1000) / vsize));
    expect(said).toEqual({ outcome: 'underpriced', floor });
    expect((await slot(id)).wanted).toBe('speed_up');
    const after = await replaced(id, { floor });
    if (!('transaction' in after)) throw new Error(after.outcome);
    expect(after.outcome).toBe('sent');
    expect(rateOf(after.transaction, after.vsize)).toBeLessThan(dearSatPerKvb * 1.1);
    expect(await finished(id)).toMatchObject({ status: 'confirmed', hash: after.hash });
  });

  it('is kept, where the ceiling does not allow it, and says what is asked for and what is allowed', async () => {
    proxy.set({ answer: inWordsOfCore });
    const ceiling = { ceilingSatPerKvb: 15_000n };
    const { id, said, hash } = await refused(ceiling);
    if (said.outcome !== 'underpriced') throw new Error(said.outcome);
    const notice = new RegExp(
      `^Nodes ask for more than the transaction offers: min relay fee not met, 416 < ${neededSat}\\. Its transaction pays \\d+ sat for \\d+ virtual bytes; a replacement would have to pay ${said.floor} sat for a thousand of them, and the ceiling is 15000 sat\\. It is sent again from time to time; it can be sped up or cancelled\\.$`,
    );
    expect((await world.transaction(id)).notice).toMatch(notice);
    for (let look = 0; look < 2; look += 1)
      expect(await steps(ceiling).checkChain(id)).toEqual({ state: 'waiting', floor: said.floor });
    expect(await steps(ceiling).settle(id)).toEqual({ state: 'open' });
    // Asked for by a person, it is refused as well, without a signature.
    expect(await ask(id, speedUpPayment)).toBeUndefined();
    expect(await replaced(id, { ...ceiling, floor: said.floor })).toEqual({ outcome: 'refused' });
    expect((await world.transaction(id)).notice).toContain(`${said.floor} sat`);
    expect(await world.attempts(id)).toHaveLength(1);
    // A higher ceiling, or nodes that ask for less: it goes on.
    expect(await steps().checkChain(id)).toEqual({ state: 'waiting', floor: said.floor, replace: true });
    await cheap();
    expect(await steps(ceiling).checkChain(id)).toEqual({ state: 'waiting' });
    expect(await world.transaction(id)).toMatchObject({ notice: null });
    expect(await finished(id)).toMatchObject({ status: 'confirmed', hash });
  });

  it('can be cancelled then: what takes it back is signed up to the ceiling, and sent once nodes take it', async () => {
    proxy.set({ answer: inWordsOfCore });
    const ceiling = { ceilingSatPerKvb: 15_000n };
    const { id, said } = await refused(ceiling);
    if (said.outcome !== 'underpriced') throw new Error(said.outcome);
    expect(await ask(id, cancelPayment)).toBeUndefined();
    expect(await steps(ceiling).settle(id)).toEqual({ state: 'open', replace: true });
    const back = await replaced(id, { ...ceiling, floor: said.floor });
    if (!('transaction' in back)) throw new Error(back.outcome);
    expect(back.outcome).toBe('underpriced');
    expect(await steps(ceiling).settle(id)).toEqual({ state: 'open' });
    await cheap();
    expect(await steps(ceiling).checkChain(id)).toEqual({ state: 'waiting' });
    expect(await finished(id)).toMatchObject({ status: 'failed', failure_code: 'cancelled', hash: back.hash });
  });

  it('can be sped up by hand, where nothing tells what would be enough', async () => {
    const { id, said, transaction, vsize } = await refused();
    expect(said).toEqual({ outcome: 'underpriced' });
    expect((await slot(id)).wanted).toBeNull();
    expect((await world.transaction(id)).notice).toMatch(/low fees\. It is sent again from time to time;/);
    expect(await ask(id, speedUpPayment)).toBeUndefined();
    const after = await replaced(id);
    if (!('transaction' in after)) throw new Error(after.outcome);
    expect(rateOf(after.transaction, after.vsize)).toBeGreaterThan(rateOf(transaction, vsize) * 1.09);
    await cheap();
    expect(await steps().checkChain(id)).toEqual({ state: 'waiting' });
    expect(await finished(id)).toMatchObject({ status: 'confirmed', hash: after.hash });
  });

  it('is not stuck, where no fee can be learned just then', async () => {
    const before = await signed();
    await dear();
    proxy.set({
      answer: (path, answer) => (path === '/fee-estimates' ? { status: 500, body: 'busy' } : answer),
    });
    const { id, raw, hash } = before;
    expect(await steps().broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'underpriced' });
    proxy.set({ answer: estimate(25) });
    expect(await steps().checkChain(id)).toEqual({ state: 'waiting', replace: true });
    expect((await replaced(id)).outcome).toBe('sent');
    expect(await finished(id)).toMatchObject({ status: 'confirmed' });
  });

  it('is replaced as well where nodes that had it have forgotten it, and ask for more', async () => {
    await cheap();
    const { id, raw, hash } = await signed();
    expect(await steps().broadcast({ transactionId: id, raw, hash })).toEqual({ outcome: 'sent' });
    await dear();
    proxy.set({ answer: estimate(25) });
    expect(await steps().checkChain(id)).toEqual({ state: 'waiting', replace: true });
    expect((await replaced(id)).outcome).toBe('sent');
    expect(await finished(id)).toMatchObject({ status: 'confirmed' });
  });

  it('believes the most modest of several servers, and none while another one takes it', async () => {
    const { id, raw, hash, vsize } = await signed();
    const greedy = await startEsploraProxy({ target: world.bitcoin.url });
    const urls = [greedy.url, proxy.url];
    greedy.set({
      answer: (path, answer) =>
        path === '/tx' ? { status: 400, body: 'min relay fee not met, 416 < 99999999' } : answer,
    });
    proxy.set({ answer: inWordsOfCore });
    await dear();
    const floor = String(Math.ceil((neededSat * 1000) / vsize));
    // Whoever is slow is not heard: asked until both are.
    const said = () => expect.poll(() => steps({ urls }).broadcast({ transactionId: id, raw, hash }), slow);
    await said().toEqual({ outcome: 'underpriced', floor });
    await cheap();
    await said().toEqual({ outcome: 'sent' });
    await greedy.stop();
  });
});
