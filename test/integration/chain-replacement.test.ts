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
import { createFail, createSettle } from '../../activities/settle.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { inTransaction } from '../../shared/db/pool.ts';
import { findSlot } from '../../shared/db/slots.ts';
import { noteWaiting, wishForDueSpeed } from '../../shared/db/waiting-attempts.ts';
import { importReceiptKey, verifyReceipt } from '../../shared/receipt.ts';
import { cancelPayment, speedUpPayment } from '../../shared/replace-payment.ts';
import { type ChainWorld, createChainWorld, signTransaction, type TestWallet } from '../support/chain-world.ts';
import { evmOf } from '../support/evm-payload.ts';
import { patiently } from '../support/patience.ts';

const recipient = '0x00000000000000000000000000000000000000aa';
const { privateKey, publicKey } = generateKeyPairSync('ed25519');

/** Payments from evaluation to their end, with a real chain and database; the test holds the wallets' keys. */
describe('replacing a payment’s transaction', () => {
  let world: ChainWorld;
  let wallet: TestWallet;
  let policyKey: Awaited<ReturnType<typeof importReceiptKey>>;
  beforeAll(async () => {
    world = await createChainWorld();
    policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
  });
  afterAll(() => world.close());
  afterEach(async () => {
    // What one test leaves open is not the next one's business.
    await world.pool.query('update slots set closed_at = now() where closed_at is null');
  });
  beforeEach(async () => {
    await world.node.setAutomine(true);
    wallet = await world.wallet();
    await world.node.setAutomine(false);
  });

  function steps({
    ceilingWei,
    patience = patiently.patience,
  }: {
    ceilingWei?: bigint;
    patience?: typeof patiently.patience;
  } = {}) {
    const { pool } = world;
    const adapter = world.adapter({ confirmations: 2, ...(ceilingWei && { maxFeePerGasCeilingWei: ceilingWei }) });
    const chains = new Map([[world.local.chain, adapter]]);
    const onChain = { pool, chains, ...patiently, patience };
    const inDatabase = { pool, clock: databaseClock, policyKey };
    return {
      evaluatePolicy: createEvaluatePolicy({ pool, clock: databaseClock }),
      prepare: createPrepare(onChain),
      allot: createAllot({ ...inDatabase, maxInFlight: 16 }),
      allotReplacement: createAllotReplacement(inDatabase),
      quote: createQuoteReplacement({ pool, chains }),
      broadcast: createBroadcast(onChain),
      checkChain: createCheckChain(onChain),
      settle: createSettle({ pool }),
      fail: createFail({ pool }),
    };
  }
  const mine = (blocks = 1) => world.node.mine({ blocks });
  const row = (id: string) => world.transaction(id);
  const slot = async (id: string) => (await findSlot(world.pool, { transactionId: id }))!;
  const sign = async ({ payload }: Allotment) => signTransaction({ wallet, transaction: evmOf(payload) });
  const ask = async (id: string, work: typeof cancelPayment | typeof speedUpPayment) => {
    const found = await row(id);
    return inTransaction(world.pool, (db) => work(db, found));
  };

  async function allotted({ amountMinor = 7n, native = false }: { amountMinor?: bigint; native?: boolean } = {}) {
    const { evaluatePolicy, prepare, allot } = steps();
    const { id } = await world.payment({ wallet, to: recipient, token: native ? world.eth : world.usdc, amountMinor });
    await evaluatePolicy(id);
    const ready = await prepare(id);
    if (ready.outcome !== 'ready') throw new Error(JSON.stringify(ready));
    const given = await allot(id, ready);
    if (given.outcome !== 'allotted') throw new Error(JSON.stringify(given));
    return { id, allotment: given.allotment };
  }
  async function sent(o?: Parameters<typeof allotted>[0]) {
    const { id, allotment } = await allotted(o);
    const signed = await sign(allotment);
    expect(await steps().broadcast({ transactionId: id, ...signed })).toEqual({ outcome: 'sent' });
    return { id, ...signed, transaction: evmOf(allotment.payload) };
  }
  async function replaced(id: string, o?: Parameters<typeof steps>[0]) {
    const { allotReplacement, quote, broadcast } = steps(o);
    const given = await allotReplacement(id, await quote(id));
    if (given.outcome !== 'allotted') return given;
    const signed = await sign(given.allotment);
    const { outcome } = await broadcast({ transactionId: id, ...signed, version: given.version });
    return { outcome, ...signed, ...given.allotment };
  }
  /** Looks until the payment has ended. */
  async function finish(id: string) {
    await mine(3);
    expect(await steps().checkChain(id)).toEqual({ state: 'final' });
    return steps().settle(id);
  }
  const ofPayment = (value: unknown) => expect.objectContaining(value as object);

  it('F16 offers a tenth more, rounded up, and one wei; the old attempt stands until one is mined', async () => {
    const payment = await sent();
    expect(await steps().settle(payment.id)).toEqual({ state: 'open' });
    expect(await ask(payment.id, speedUpPayment)).toBeUndefined();
    expect(await steps().settle(payment.id)).toEqual({ state: 'open', replace: true });
    const next = await replaced(payment.id);
    if (next.outcome !== 'sent' || !('payload' in next)) throw new Error(next.outcome);
    const least = (wei: string) => (BigInt(wei) * 110n + 99n) / 100n + 1n;
    const transaction = evmOf(next.payload);
    expect(BigInt(transaction.maxFeePerGasWei)).toBeGreaterThanOrEqual(least(payment.transaction.maxFeePerGasWei));
    expect(BigInt(transaction.maxPriorityFeePerGasWei)).toBe(least(payment.transaction.maxPriorityFeePerGasWei));
    expect({ ...transaction, maxFeePerGasWei: 0, maxPriorityFeePerGasWei: 0 }).toEqual({
      ...payment.transaction,
      maxFeePerGasWei: 0,
      maxPriorityFeePerGasWei: 0,
    });
    expect(await steps().settle(payment.id)).toEqual({ state: 'open' });
    expect(await finish(payment.id)).toMatchObject({ status: 'confirmed' });
    expect(await row(payment.id)).toMatchObject({ status: 'confirmed', hash: next.hash });
    expect(await world.attempts(payment.id)).toEqual([
      ofPayment({ hash: next.hash, version: 2, succeeded: true }),
      ofPayment({ hash: payment.hash, version: 1, block_number: null, final_at: expect.any(Date) }),
    ]);
  });

  it('offers more at once where nodes refuse the first offer as too cheap', async () => {
    const { id, allotment } = await allotted();
    const first = await sign(allotment);
    const baseFeeWei = BigInt(evmOf(allotment.payload).maxFeePerGasWei) * 2n;
    await world.node.setNextBlockBaseFeePerGas({ baseFeePerGas: baseFeeWei });
    await mine();
    expect(await steps().broadcast({ transactionId: id, ...first })).toEqual({ outcome: 'underpriced' });
    expect((await row(id)).notice).toMatch(/^Nodes ask for more than the transaction offers: .* in its place\.$/);
    expect(await steps().settle(id)).toEqual({ state: 'open', replace: true });
    const next = await replaced(id);
    if (!('payload' in next)) throw new Error(next.outcome);
    expect(next.outcome).toBe('sent');
    expect(evmOf(next.payload)).toMatchObject({ nonce: evmOf(allotment.payload).nonce });
    expect(await finish(id)).toMatchObject({ status: 'confirmed' });
    expect(await row(id)).toMatchObject({ hash: next.hash, notice: null });
  });

  it('gives the signers a receipt for just what they sign', async () => {
    const payment = await sent();
    await ask(payment.id, cancelPayment);
    const next = await replaced(payment.id);
    if (!('receipt' in next)) throw new Error(next.outcome);
    const key = (await import('jose')).importJWK(publicKey.export({ format: 'jwk' }), 'EdDSA');
    const claims = await verifyReceipt((await key) as Parameters<typeof verifyReceipt>[0], {
      receipt: next.receipt,
      now: new Date(),
    });
    const { gas, maxFeePerGasWei } = evmOf(next.payload);
    expect(claims.intent).toEqual({
      chain: world.local.chain,
      asset: 'native',
      to: wallet.account.address,
      amount_minor: '0',
      max_fee_minor: (BigInt(gas) * BigInt(maxFeePerGasWei)).toString(),
    });
  });

  it('F8 a cancelled payment ends by what was mined: cancelled, its fee spent and nothing else', async () => {
    const payment = await sent({ native: true, amountMinor: 10n ** 17n });
    expect(await ask(payment.id, cancelPayment)).toBeUndefined();
    const next = await replaced(payment.id);
    expect(next.outcome).toBe('sent');
    expect(await ask(payment.id, cancelPayment)).toBeUndefined();
    expect(await ask(payment.id, speedUpPayment)).toBe('ending');
    expect(await slot(payment.id)).toMatchObject({ purpose: 'cancel', wanted: null });
    expect(await finish(payment.id)).toMatchObject({ status: 'failed' });
    const ended = await row(payment.id);
    expect(ended).toMatchObject({
      failure_code: 'cancelled',
      failure_message: expect.stringContaining('cancelled on request'),
      fee_minor: expect.stringMatching(/^[1-9]/),
    });
    expect(await world.node.getBalance({ address: recipient })).toBe(0n);
    const { rows } = await world.pool.query('select state from reservations where payment_id = $1', [payment.id]);
    expect(rows).toEqual([{ state: 'released' }]);
    expect(
      await world.pool.query('select asset, amount_minor from holds where owner_id = $1', [payment.id]),
    ).toMatchObject({
      rows: [{ asset: 'native', amount_minor: ended.fee_minor }],
    });
    expect(await ask(payment.id, cancelPayment)).toBe('ended');
  });

  it('F8 a payment that is mined before its cancellation is confirmed', async () => {
    const payment = await sent();
    await ask(payment.id, cancelPayment);
    const { allotReplacement, quote, broadcast } = steps();
    const given = await allotReplacement(payment.id, await quote(payment.id));
    if (given.outcome !== 'allotted') throw new Error(given.outcome);
    const signed = await sign(given.allotment);
    await mine();
    expect(await broadcast({ transactionId: payment.id, ...signed, version: given.version })).toEqual({
      outcome: 'sent',
    });
    expect(await finish(payment.id)).toMatchObject({ status: 'confirmed' });
    expect(await row(payment.id)).toMatchObject({ status: 'confirmed', hash: payment.hash, failure_code: null });
    expect(await world.attempts(payment.id)).toHaveLength(2);
  });

  it('takes a cancellation under another signature for ours, not for somebody else’s transaction', async () => {
    const payment = await sent();
    await ask(payment.id, cancelPayment);
    const next = await replaced(payment.id);
    if (!('payload' in next)) throw new Error(next.outcome);
    const transaction = evmOf(next.payload);
    const fee = (BigInt(transaction.maxFeePerGasWei) + 1n).toString();
    const twin = await signTransaction({ wallet, transaction: { ...transaction, maxFeePerGasWei: fee } });
    for (const { hash } of [payment, next]) await world.node.dropTransaction({ hash });
    await world.node.sendRawTransaction({ serializedTransaction: twin.raw });
    expect(await finish(payment.id)).toMatchObject({ status: 'failed' });
    expect(await row(payment.id)).toMatchObject({ failure_code: 'cancelled', hash: twin.hash });
  });

  it('takes no wish for what is in a block, and drops one that comes too late', async () => {
    const payment = await sent();
    await ask(payment.id, cancelPayment);
    await mine();
    expect(await steps().checkChain(payment.id)).toEqual({ state: 'included' });
    expect(await steps().settle(payment.id)).toEqual({ state: 'open' });
    expect(await ask(payment.id, cancelPayment)).toBe('included');
    expect(await ask(payment.id, speedUpPayment)).toBe('included');
    expect(await replaced(payment.id)).toEqual({ outcome: 'none' });
    expect((await slot(payment.id)).wanted).toBeNull();
  });

  it('cancels at once what has no nonce, and what was never sent without sending it', async () => {
    const { id: early } = await world.payment({ wallet, to: recipient, token: world.usdc, amountMinor: 7n });
    expect(await ask(early, speedUpPayment)).toBe('unsent');
    expect(await ask(early, cancelPayment)).toBeUndefined();
    expect(await row(early)).toMatchObject({ status: 'failed', failure_code: 'cancelled' });
    expect(await steps().prepare(early)).toEqual({ outcome: 'ended' });

    const { id, allotment } = await allotted();
    expect(await ask(id, speedUpPayment)).toBe('unsent');
    expect(await ask(id, cancelPayment)).toBeUndefined();
    const signed = await sign(allotment);
    expect(await steps().broadcast({ transactionId: id, ...signed })).toEqual({ outcome: 'superseded' });
    expect(await steps().checkChain(id)).toEqual({ state: 'waiting' });
    expect(await world.adapter().knows({ hash: signed.hash })).toBe(false);
    expect(await steps().settle(id)).toEqual({ state: 'open', replace: true });
    expect((await replaced(id)).outcome).toBe('sent');
    expect(await finish(id)).toMatchObject({ status: 'failed' });
    expect(await row(id)).toMatchObject({ failure_code: 'cancelled' });
  });

  it('signs the same again when it was not stored, under a fresh receipt', async () => {
    const payment = await sent();
    await ask(payment.id, speedUpPayment);
    const { allotReplacement, quote } = steps();
    const first = await allotReplacement(payment.id, await quote(payment.id));
    await world.node.setNextBlockBaseFeePerGas({ baseFeePerGas: 5_000_000_000n });
    expect(await steps().settle(payment.id)).toEqual({ state: 'open', replace: true });
    const second = await allotReplacement(payment.id, await quote(payment.id));
    if (first.outcome !== 'allotted' || second.outcome !== 'allotted') throw new Error(second.outcome);
    expect(second.allotment.payload).toEqual(first.allotment.payload);
    expect(second.version).toBe(2);
  });

  it('stays below the ceiling, says so, and leaves the first attempt as it is', async () => {
    const payment = await sent();
    const ceilingWei = BigInt(payment.transaction.maxFeePerGasWei) + 1n;
    await ask(payment.id, speedUpPayment);
    expect(await replaced(payment.id, { ceilingWei })).toEqual({ outcome: 'refused' });
    expect((await row(payment.id)).notice).toContain(`the ceiling is ${ceilingWei} wei`);
    expect(await steps().settle(payment.id)).toEqual({ state: 'open' });
    await ask(payment.id, cancelPayment);
    expect(await replaced(payment.id, { ceilingWei })).toEqual({ outcome: 'refused' });
    expect(await steps().settle(payment.id)).toEqual({ state: 'open', replace: true });
    expect(await finish(payment.id)).toMatchObject({ status: 'confirmed' });
    expect((await row(payment.id)).notice).toBeNull();
  });

  it('does not promise coins that other payments hold', async () => {
    const payment = await sent();
    await sent({ native: true, amountMinor: 1n });
    const { maxFeePerGasWei, gas } = payment.transaction;
    const own = BigInt(gas) * BigInt(maxFeePerGasWei);
    await world.node.setBalance({
      address: wallet.account.address,
      value: own + 21_000n * BigInt(maxFeePerGasWei) + 1n,
    });
    await ask(payment.id, speedUpPayment);
    expect(await replaced(payment.id)).toEqual({ outcome: 'refused' });
    expect((await row(payment.id)).notice).toMatch(/of which .* are held for other payments/);
  });

  it('F12 bytes that no node ever takes: the nonce is used up, the payment fails with what was said', async () => {
    const { id, allotment } = await allotted();
    const { id: behind } = await sent();
    const wrong = await signTransaction({ wallet, transaction: { ...evmOf(allotment.payload), chainId: 1 } });
    expect(await steps().broadcast({ transactionId: id, ...wrong })).toEqual({ outcome: 'refused' });
    expect(await steps().settle(id)).toEqual({ state: 'open', replace: true });
    expect((await replaced(id)).outcome).toBe('sent');
    expect(await finish(id)).toMatchObject({ status: 'failed' });
    expect(await row(id)).toMatchObject({
      failure_code: 'dropped',
      failure_message: expect.stringMatching(/chain id/i),
    });
    expect(await steps().checkChain(behind)).toEqual({ state: 'final' });
    expect(await steps().settle(behind)).toMatchObject({ status: 'confirmed' });
  });

  it('F1 F2 a payment that fails before it was signed leaves no gap for those behind it', async () => {
    const { id } = await allotted();
    const { id: behind } = await sent();
    expect(await steps().fail(id, 'signing_failed', 'A signer said no.')).toEqual({ state: 'open', replace: true });
    expect(await row(id)).toMatchObject({ status: 'pending' });
    expect(await steps().allot(id)).toEqual({ outcome: 'signed' });
    expect(await steps().settle(id)).toEqual({ state: 'open', replace: true });
    expect((await replaced(id)).outcome).toBe('sent');
    expect(await finish(id)).toMatchObject({ status: 'failed' });
    expect(await row(id)).toMatchObject({
      failure_code: 'signing_failed',
      failure_message: expect.stringMatching(/^A signer said no\. In its place the chain executed 0x/),
    });
    expect(await steps().checkChain(behind)).toEqual({ state: 'final' });
    await steps().settle(behind);
    expect(await findMismatches(world.pool)).toEqual([]);
  });

  it('F15 gives up in a bounded time: the nonce is used up, whichever is mined decides', async () => {
    const payment = await sent();
    const patience = { ...patiently.patience, giveUpMs: 0 };
    expect(await steps({ patience }).checkChain(payment.id)).toEqual({ state: 'waiting' });
    expect(await slot(payment.id)).toMatchObject({ wanted: 'fill', end_code: 'dropped' });
    expect(await ask(payment.id, cancelPayment)).toBeUndefined();
    expect(await slot(payment.id)).toMatchObject({ wanted: 'fill', end_code: 'dropped' });
    expect((await replaced(payment.id)).outcome).toBe('sent');
    expect(await finish(payment.id)).toMatchObject({ status: 'failed' });
    expect(await row(payment.id)).toMatchObject({
      failure_code: 'dropped',
      failure_message: expect.stringContaining('No block has taken'),
    });
  });

  it('gives up a signed payment whose wallet gets no money, once some has come for that', async () => {
    const { id, allotment } = await allotted();
    const signed = await sign(allotment);
    await world.node.setBalance({ address: wallet.account.address, value: 0n });
    const patience = { ...patiently.patience, fundingWaitMs: 0 };
    expect(await steps().broadcast({ transactionId: id, ...signed })).toEqual({ outcome: 'unfunded' });
    expect(await steps({ patience }).checkChain(id)).toEqual({ state: 'waiting' });
    expect(await replaced(id)).toEqual({ outcome: 'refused' });
    await world.node.setBalance({ address: wallet.account.address, value: 10n ** 18n });
    expect((await replaced(id)).outcome).toBe('sent');
    expect(await finish(id)).toMatchObject({ status: 'failed' });
    expect(await row(id)).toMatchObject({ failure_code: 'insufficient_funds' });
  });

  it('F5 F10 somebody else’s transaction at the nonce ends it as replaced, only when that is final', async () => {
    const payment = await sent();
    const foreign = await signTransaction({
      wallet,
      transaction: {
        ...payment.transaction,
        to: recipient,
        valueWei: '5',
        data: '0x',
        maxFeePerGasWei: '90000000000',
        maxPriorityFeePerGasWei: '9000000000',
      },
    });
    await ask(payment.id, cancelPayment);
    await world.node.sendRawTransaction({ serializedTransaction: foreign.raw });
    await mine();
    expect((await replaced(payment.id)).outcome).toBe('undecided');
    expect(await steps().checkChain(payment.id)).toEqual({ state: 'waiting' });
    await mine(2);
    expect(await steps().checkChain(payment.id)).toEqual({ state: 'replaced', by: foreign.hash });
  });

  describe('for want of speed', () => {
    const due = async (blocks: number) => {
      const { number: headNumber } = await world.adapter().head();
      const chain = world.local.chain;
      await noteWaiting(world.pool, { chain, headNumber });
      return wishForDueSpeed(world.pool, { chain, headNumber, afterBlocks: blocks });
    };
    /** Blocks pass, and take nothing of ours. */
    async function pass(blocks: number, dropped: readonly string[]) {
      for (const hash of dropped) await world.node.dropTransaction({ hash: hash as `0x${string}` });
      await mine(blocks);
    }

    it('asks after so many blocks, once, for the lowest nonce of a wallet alone', async () => {
      const first = await sent();
      const second = await sent();
      const hashes = [first.hash, second.hash];
      expect(await due(3)).toEqual([]);
      await pass(2, hashes);
      expect(await due(3)).toEqual([]);
      await pass(1, hashes);
      expect(await due(3)).toEqual([first.id]);
      expect(await due(3)).toEqual([]);
      expect((await replaced(first.id)).outcome).toBe('sent');
      // The new attempt waits from now on.
      expect(await due(3)).toEqual([]);
    });

    it('counts anew for the next one when the one before was mined', async () => {
      const first = await sent();
      const second = await sent();
      expect(await due(3)).toEqual([]);
      await pass(1, [second.hash]);
      await steps().checkChain(first.id);
      await pass(2, [second.hash]);
      expect(await due(3)).toEqual([]);
      await pass(1, [second.hash]);
      expect(await due(3)).toEqual([second.id]);
    });

    it('asks again for more only after as many blocks, where the ceiling left no room', async () => {
      const { id, hash, transaction } = await sent();
      await due(2);
      await pass(2, [hash]);
      expect(await due(2)).toEqual([id]);
      expect(await replaced(id, { ceilingWei: BigInt(transaction.maxFeePerGasWei) })).toEqual({ outcome: 'refused' });
      expect(await due(2)).toEqual([]);
      await pass(1, [hash]);
      expect(await due(2)).toEqual([]);
      await pass(1, [hash]);
      expect(await due(2)).toEqual([id]);
    });
  });
});
