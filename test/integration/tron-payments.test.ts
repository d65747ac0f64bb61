import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ChainAdapter, Transfer } from '../../shared/chain/adapter.ts';
import type { Signed } from '../../shared/chain/family.ts';
import type { TronPrepared } from '../../shared/chain/tron/prepared.ts';
import type { TransactionPayload } from '../../shared/domain/receipt.ts';
import { readTransaction } from '../support/tron-bytes.ts';
import {
  buildTron,
  createTronWorld,
  newTronWallet,
  prepareReady,
  signTron,
  type TronWallet,
  type TronWorld,
} from '../support/tron-world.ts';

const trx = 1_000_000n;
const minutes = 60_000;

describe('payments on Tron', () => {
  let world: TronWorld;
  let adapter: ChainAdapter<TronPrepared>;
  let payer: TronWallet;
  let payee: string;
  beforeEach(async () => {
    world = await createTronWorld();
    adapter = world.adapter();
    payee = world.wallet().address;
    payer = world.wallet({ trx: 1_000n * trx, usdt: 500_000_000n });
  });
  afterEach(() => world.stop());

  const ofTrx = (amountMinor: bigint, to = payee): Transfer => ({
    ...{ from: payer.address, to, token: world.trx, amountMinor },
  });
  const ofUsdt = (amountMinor: bigint, to = payee): Transfer => ({
    ...{ from: payer.address, to, token: world.usdt, amountMinor },
  });
  interface Payment extends Signed {
    readonly prepared: TronPrepared;
    readonly payload: TransactionPayload;
  }
  async function sign(transfer: Transfer, former?: TransactionPayload): Promise<Payment> {
    const prepared = await prepareReady(adapter, transfer, former);
    const payload = await buildTron(adapter, transfer, prepared);
    return { prepared, payload, ...(await signTron(payload, payer)) };
  }
  async function pay(transfer: Transfer): Promise<Payment> {
    const payment = await sign(transfer);
    expect(await adapter.send(payment)).toEqual({ outcome: 'sent' });
    return payment;
  }
  /** What the chain bills bandwidth for. */
  const bytesOf = ({ raw }: Signed) => BigInt(raw.length / 2 + 64);
  const found = async ({ hash }: Signed) => (await adapter.inclusions({ hashes: [hash] }))[0];
  const agreed = async ({ hash }: Signed, blockNumber = world.double.head.number) =>
    (await adapter.agreedInclusions({ placed: [{ hash, blockNumber }] }))[0];
  const holds = async (owner: string) =>
    (await adapter.balances({ owner })).data.map((each) => ('amountMinor' in each ? each.amountMinor : each.error));

  it('pays TRX, with what is in no block yet known and what is in one found', async () => {
    const payment = await pay(ofTrx(5n * trx));
    const bandwidthSun = String(bytesOf(payment) * 1_000n);
    expect(payment.prepared).toMatchObject({ feeLimitSun: '0', bandwidthSun, maxFeeMinor: bandwidthSun });
    expect(await adapter.knows(payment)).toBe(true);
    expect(await found(payment)).toBeUndefined();
    const block = world.double.produce();
    expect(await adapter.head()).toEqual({
      ...{ number: block.number, hash: block.id, parentHash: block.parentId, transactionHashes: [payment.hash] },
      timestampMs: block.timestampMs,
    });
    expect(await found(payment)).toEqual({
      ...{ hash: payment.hash, blockNumber: block.number, blockHash: block.id, succeeded: true, feeMinor: 0n },
    });
    expect(await adapter.knows({ hash: '0'.repeat(64) })).toBe(false);
  });

  it('pays USDT, whose contract returns false, within the fee that was told', async () => {
    const payment = await pay(ofUsdt(7_000_000n));
    const energySun = 130_285n * 100n;
    expect(payment.prepared).toMatchObject({ balanceMinor: '500000000' });
    expect(BigInt(payment.prepared.feeLimitSun)).toBe((energySun * 125n) / 100n);
    world.double.produce();
    expect(await found(payment)).toMatchObject({ succeeded: true, feeMinor: energySun });
    world.solidify();
    expect(await holds(payee)).toEqual([1_000n * trx, 7_000_000n]);
    expect(await holds(payer.address)).toEqual([1_000n * trx - energySun, 493_000_000n]);
  });

  it('is final only where it is solidified', async () => {
    const payment = await pay(ofTrx(trx));
    const { number } = world.double.produce();
    while (world.double.solid.number < number - 1) world.double.produce();
    expect(await agreed(payment, number)).toEqual({ hash: payment.hash, outcome: 'undecided' });
    world.double.produce();
    expect(await agreed(payment, number)).toMatchObject({
      outcome: 'included',
      inclusion: { blockNumber: number, blockHash: world.double.solid.id, succeeded: true },
    });
    // Wherever it was seen before.
    expect(await agreed(payment, number - 1)).toMatchObject({ inclusion: { blockNumber: number } });
  });

  it('tells of a block that is gone, and of the one that took the payment then', async () => {
    const payment = await pay(ofTrx(trx));
    const first = world.double.produce();
    expect(await found(payment)).toMatchObject({ blockHash: first.id });
    world.double.reorg({ depth: 1, include: () => false });
    expect(await found(payment)).toBeUndefined();
    expect(await adapter.blocks({ numbers: [first.number, first.number + 9] })).toMatchObject([
      { number: first.number, hash: world.double.block(first.number)!.id },
      undefined,
    ]);
    const second = world.double.produce();
    world.solidify();
    expect(await agreed(payment, first.number)).toMatchObject({ inclusion: { blockHash: second.id } });
    const other = await sign(ofTrx(2n * trx));
    expect(await agreed(other, first.number)).toEqual({ hash: other.hash, outcome: 'absent' });
  });

  it('foresees the price of an account that another transfer is making: that one may never be carried out', async () => {
    const to = newTronWallet().address;
    await pay(ofTrx(trx, to));
    const payment = await sign(ofTrx(trx, to));
    world.double.forgetPending();
    await adapter.send(payment);
    world.double.produce();
    expect(await found(payment)).toMatchObject({ feeMinor: 1_100_000n });
    expect(payment.prepared.maxFeeMinor).toBe('1100000');
  });

  it.each(['REVERT', 'OUT_OF_ENERGY'] as const)('notes %s: failed, and the fee spent', async (fails) => {
    const payment = await sign(ofUsdt(1_000_000n));
    world.double.addToken(world.usdt.asset, { fails });
    await adapter.send(payment);
    world.double.produce();
    const inclusion = await found(payment);
    expect(inclusion).toMatchObject({ succeeded: false });
    expect(inclusion!.feeMinor).toBeGreaterThan(0n);
    expect(inclusion!.feeMinor).toBeLessThanOrEqual(BigInt(payment.prepared.maxFeeMinor));
    world.solidify();
    expect((await holds(payer.address))[1]).toBe(500_000_000n);
  });

  it.each(['false', 'true', 'nothing'] as const)(
    'notes a call that returns %s and has moved nothing: failed, and the fee spent',
    async (returns) => {
      world.double.addToken(world.usdt.asset, { movesNothing: true, returns });
      const payment = await pay(ofUsdt(1_000_000n));
      const { number } = world.double.produce();
      expect(await found(payment)).toMatchObject({ succeeded: false, feeMinor: 200_000n });
      world.solidify();
      expect(await agreed(payment, number)).toMatchObject({ inclusion: { succeeded: false, feeMinor: 200_000n } });
      expect((await holds(payer.address))[1]).toBe(500_000_000n);
    },
  );

  it('waits rather than take for undone what a node tells in a way that cannot be read', async () => {
    const payment = await pay(ofUsdt(1_000_000n));
    const { number } = world.double.produce();
    world.solidify();
    const answer = (path: string, _: unknown, said: unknown) =>
      path.endsWith('/gettransactioninfobyid') ? { ...(said as object), log: [{ address: '' }] } : said;
    for (const node of world.nodes) node.set({ answer });
    expect(await found(payment)).toBeUndefined();
    expect(await agreed(payment, number)).toEqual({ hash: payment.hash, outcome: 'undecided' });
    for (const node of world.nodes) node.set({});
    expect(await agreed(payment, number)).toMatchObject({ inclusion: { succeeded: true } });
  });

  it('runs out of energy where the fee limit is too low, and spends no more than that', async () => {
    const { prepared } = await sign(ofUsdt(1n));
    const payload = await buildTron(adapter, ofUsdt(1n), { ...prepared, feeLimitSun: '1000000' });
    const payment = await signTron(payload, payer);
    await adapter.send(payment);
    world.double.produce();
    expect(await found(payment)).toMatchObject({ succeeded: false, feeMinor: 1_000_000n });
  });

  it('refers to a solidified block, and lives ten minutes of the chain', async () => {
    const payments = await Promise.all(Array.from({ length: 5 }, () => sign(ofTrx(trx))));
    const { solid, head } = world.double;
    for (const { raw } of payments) {
      const read = readTransaction(Buffer.from(raw, 'hex'));
      expect(read.refBlockBytes).toBe(solid.id.slice(12, 16));
      expect(read.refBlockHash).toBe(solid.id.slice(16, 32));
      expect(Number(read.expirationMs)).toBeLessThanOrEqual(head.timestampMs + 10 * minutes);
      expect(Number(read.expirationMs)).toBeGreaterThan(head.timestampMs + 10 * minutes - 3_000);
      expect(Number(read.timestampMs)).toBeLessThanOrEqual(head.timestampMs);
    }
    // Equal payments are transactions of their own.
    expect(new Set(payments.map(({ hash }) => hash)).size).toBe(5);
  });

  describe('what it costs', () => {
    it('holds the price of every byte, whatever bandwidth the chain finds to cover all of them', async () => {
      const cases = [
        [{ freeNetUsed: 0n, netLimit: 0n }, 0n],
        [{ freeNetUsed: 330n, netLimit: 0n }, 0n],
        [{ freeNetUsed: 340n, netLimit: 0n }, undefined],
        [{ freeNetUsed: 600n, netLimit: 300n }, 0n],
        // Two halves cover nothing.
        [{ freeNetUsed: 400n, netLimit: 200n }, undefined],
      ] as const;
      for (const [account, expected] of cases) {
        world.double.setAccount(payer.address, account);
        const { prepared, ...payment } = await sign(ofTrx(trx));
        const bandwidthSun = bytesOf(payment) * 1_000n;
        expect(prepared).toMatchObject({ bandwidthSun: String(bandwidthSun), maxFeeMinor: String(bandwidthSun) });
        const state = world.double.head.state;
        await adapter.send(payment);
        world.double.produce();
        expect(await found(payment)).toMatchObject({ feeMinor: expected ?? bandwidthSun });
        world.double.setAccount(payer.address, state.accounts.get(payer.address)!);
      }
    });

    it('holds enough for payments that are under way at once, of which each would count the same free bandwidth', async () => {
      const amountSun = 5n * trx;
      const { maxFeeMinor } = await prepareReady(adapter, ofTrx(amountSun));
      world.double.setAccount(payer.address, { balanceSun: 3n * (amountSun + BigInt(maxFeeMinor)) });
      world.solidify();
      const payments = await Promise.all(Array.from({ length: 3 }, () => sign(ofTrx(amountSun))));
      for (const payment of payments) expect(await adapter.send(payment)).toEqual({ outcome: 'sent' });
      world.double.produce();
      const done = await Promise.all(payments.map(found));
      payments.forEach(({ prepared }, index) => {
        expect(done[index]).toMatchObject({ succeeded: true });
        expect(done[index]!.feeMinor).toBeLessThanOrEqual(BigInt(prepared.maxFeeMinor));
      });
      // 600 bytes are free: enough for two.
      expect(done.map((each) => each!.feeMinor)).toEqual([0n, 0n, BigInt(maxFeeMinor)]);
    });

    it('counts what a call takes of bandwidth beside its energy', async () => {
      world.double.setAccount(payer.address, { freeNetUsed: 600n });
      const payment = await pay(ofUsdt(1_000_000n));
      const bytes = bytesOf(payment);
      expect([bytes * 1_000n, (bytes + 1n) * 1_000n]).toContain(BigInt(payment.prepared.bandwidthSun));
      world.double.produce();
      const { feeMinor } = (await found(payment))!;
      expect(feeMinor).toBe(13_028_500n + bytes * 1_000n);
      expect(BigInt(payment.prepared.maxFeeMinor)).toBeGreaterThan(feeMinor);
    });

    it('pays for the account of a recipient who has none, whatever bandwidth is left', async () => {
      const payment = await pay(ofTrx(5n * trx, newTronWallet().address));
      expect(payment.prepared).toMatchObject({ bandwidthSun: '1100000', maxFeeMinor: '1100000' });
      world.double.produce();
      expect(await found(payment)).toMatchObject({ succeeded: true, feeMinor: 1_100_000n });
      // A token makes no account.
      const { bandwidthSun } = await prepareReady(adapter, ofUsdt(1n, newTronWallet().address));
      expect(bandwidthSun).toBe((await prepareReady(adapter, ofUsdt(1n))).bandwidthSun);
    });

    it('gives a call less room when the ceiling is near, and waits when it asks for more', async () => {
      const energySun = 13_028_500n;
      const at = (maxFeeSun: bigint) => world.adapter({ maxFeeSun }).prepare(ofUsdt(1n));
      const leastSun =
        energySun + BigInt((await prepareReady(world.adapter({ maxFeeSun: 14n * trx }), ofUsdt(1n))).bandwidthSun);
      expect(await at(leastSun)).toMatchObject({ feeLimitSun: energySun.toString() });
      expect(await at(leastSun + 5n)).toMatchObject({ feeLimitSun: (energySun + 5n).toString() });
      await expect(at(leastSun - 1n)).rejects.toMatchObject({
        name: 'FeeAboveCeiling',
        message: `tron:0xcd8690dc asks ${leastSun} sun for this payment now, more than the ceiling of ${leastSun - 1n} sun. The payment goes on when fees have fallen, or when the ceiling is raised.`,
      });
    });
  });

  describe('what cannot be paid', () => {
    it('says what is missing of the token', async () => {
      expect(await adapter.prepare(ofUsdt(500_000_001n))).toEqual({
        outcome: 'failed',
        code: 'insufficient_funds',
        message: 'The wallet holds 500 USDT, less than the 500.000001 USDT to be sent.',
        details: { token: 'USDT', balance: '500', required: '500.000001' },
        atBlock: world.double.solid.number,
      });
    });

    it('says what is missing for the fee, which may come', async () => {
      world.double.setAccount(payer.address, { balanceSun: trx });
      world.solidify();
      expect(await adapter.prepare(ofUsdt(1n))).toMatchObject({
        code: 'insufficient_funds',
        message: 'The wallet holds 1 TRX, but a fee of up to 16.631625 TRX need 16.631625 TRX.',
        mayPass: true,
      });
    });

    it('says that nothing is left for the fee of TRX itself', async () => {
      const failed = await adapter.prepare(ofTrx(999n * trx, newTronWallet().address));
      expect(failed).toMatchObject({
        message: 'The wallet holds 1000 TRX, but 999 and a fee of up to 1.1 TRX need 1000.1 TRX.',
      });
      expect(failed).not.toHaveProperty('mayPass');
      const { maxFeeMinor } = await prepareReady(adapter, ofTrx(999n * trx));
      const all = 1_000n * trx - BigInt(maxFeeMinor);
      expect(await adapter.prepare(ofTrx(all))).toMatchObject({ outcome: 'ready', maxFeeMinor });
    });

    it('counts only what is solidified: neither what waits nor what may be undone', async () => {
      world.double.setAccount(payer.address, { balanceSun: 2_000n * trx });
      expect(await holds(payer.address)).toEqual([1_000n * trx, 500_000_000n]);
      expect(await adapter.prepare(ofTrx(1_500n * trx))).toMatchObject({ code: 'insufficient_funds' });
      await pay(ofTrx(100n * trx));
      expect(await holds(payer.address)).toEqual([1_000n * trx, 500_000_000n]);
    });

    it('tells why a contract would refuse', async () => {
      world.double.addToken(world.usdt.asset, { failsAsked: true });
      expect(await adapter.prepare(ofUsdt(1n))).toMatchObject({
        code: 'simulation_failed',
        message: 'The transfer of USDT would fail on the chain: REVERT opcode executed.',
      });
      const nothing = { ...ofUsdt(1n), token: { ...world.usdt, asset: newTronWallet().address } };
      expect(await adapter.prepare(nothing)).toMatchObject({
        code: 'simulation_failed',
        details: { reason: 'Contract validate error : Smart contract is not exist.' },
      });
    });

    it('knows nothing of a wallet that was never paid', async () => {
      payer = newTronWallet();
      expect(await holds(payer.address)).toEqual([0n, 0n]);
      expect(await adapter.prepare(ofTrx(1n))).toMatchObject({ code: 'insufficient_funds' });
    });
  });

  describe('what nodes say to bytes', () => {
    it('takes bytes that a node has already as sent', async () => {
      const payment = await pay(ofTrx(trx));
      expect(await adapter.send(payment)).toEqual({ outcome: 'sent' });
      world.double.produce();
      expect(await adapter.send(payment)).toEqual({ outcome: 'sent' });
    });

    it('says that money is missing, for the amount and for the bandwidth', async () => {
      const payment = await sign(ofTrx(900n * trx));
      world.double.setAccount(payer.address, { balanceSun: 800n * trx });
      expect(await adapter.send(payment)).toMatchObject({
        outcome: 'unfunded',
        reason: expect.stringContaining('balance is not sufficient'),
      });
      world.double.setAccount(payer.address, { balanceSun: 0n, freeNetUsed: 600n });
      expect(await adapter.send(payment)).toEqual({
        outcome: 'unfunded',
        reason: 'Account resource insufficient error',
      });
      world.double.setAccount(payer.address, { balanceSun: 901n * trx });
      expect(await adapter.send(payment)).toEqual({ outcome: 'sent' });
    });

    it('is refused once all say that it is too late, or signed by somebody else', async () => {
      const payment = await sign(ofTrx(trx));
      const other = { ...payment, ...(await signTronAs(payment, newTronWallet())) };
      expect(await adapter.send(other)).toMatchObject({ outcome: 'refused', reason: /Validate signature error/ });
      world.double.produce({ timestampMs: world.double.head.timestampMs + 11 * minutes });
      expect(await adapter.send(payment)).toEqual({ outcome: 'refused', reason: 'Transaction expired' });
    });
    const signTronAs = async ({ raw }: Signed, _: TronWallet) => ({ raw: raw.slice(0, -130) + '11'.repeat(65) });

    it.each(['SERVER_BUSY', 'NO_CONNECTION', 'BLOCK_UNSOLIDIFIED', 'OTHER_ERROR', 'SOMETHING_NEW'])(
      'asks for a repeat at %s',
      async (code) => {
        const payment = await sign(ofTrx(trx));
        const busy = { answer: () => ({ code, message: 'Not now.' }) };
        for (const node of world.nodes) node.set(busy);
        await expect(adapter.send(payment)).rejects.toMatchObject({
          name: 'RpcUnavailable',
          message: "The chain's endpoint answered: Not now.",
        });
        world.nodes[2]!.set({});
        expect(await adapter.send(payment)).toEqual({ outcome: 'sent' });
      },
    );

    it('may have been taken although no answer came', async () => {
      const payment = await sign(ofTrx(trx));
      for (const node of world.nodes) node.set({ loseBroadcastAnswers: true });
      await expect(adapter.send(payment)).rejects.toMatchObject({ name: 'RpcUnavailable' });
      for (const node of world.nodes) node.set({});
      expect(await adapter.knows(payment)).toBe(true);
    });
  });

  describe('the end of a transaction', () => {
    const pastExpiry = ({ payload }: Payment, ms: number) => {
      if (payload.kind !== 'tron-transaction') throw new Error('It is none of Tron.');
      world.solidifyPast(payload.transaction.expirationMs + ms);
    };

    it('has come when a solidified block is later than it and none has it', async () => {
      const payment = await pay(ofTrx(trx));
      world.double.forgetPending();
      expect(await adapter.isExpired(payment)).toBe(false);
      pastExpiry(payment, 0);
      // Behind one address may stand a node that is behind.
      expect(await adapter.isExpired(payment)).toBe(false);
      pastExpiry(payment, 31_000);
      expect(await adapter.isExpired(payment)).toBe(true);
      expect(await adapter.isExpired({ payload: payment.payload })).toBe(true);
      expect(await adapter.slotOwner(payment)).toBeUndefined();
    });

    it('has not come while no block later than it is solidified', async () => {
      const payment = await pay(ofTrx(trx));
      world.double.forgetPending();
      world.double.produce({ timestampMs: world.double.head.timestampMs + 60 * minutes });
      expect(await adapter.isExpired(payment)).toBe(false);
    });

    it('never comes for what a block has taken', async () => {
      const payment = await pay(ofTrx(trx));
      world.double.produce();
      pastExpiry(payment, 60_000);
      expect(await adapter.isExpired(payment)).toBe(false);
    });

    it('lets the payment be built anew, and not before', async () => {
      const before = await sign(ofTrx(trx));
      const again = () => adapter.prepare(ofTrx(trx), before.payload);
      await expect(again()).rejects.toMatchObject({
        name: 'RpcUnavailable',
        message: expect.stringMatching(/^Transaction \w{64}, which this payment was to be before, may still be taken/),
      });
      pastExpiry(before, 31_000);
      const { formerAbsentAtMs } = (await again()) as TronPrepared;
      expect(formerAbsentAtMs).toBeGreaterThanOrEqual(
        (before.payload as { transaction: { expirationMs: number } }).transaction.expirationMs,
      );
      const after = await sign(ofTrx(trx), before.payload);
      expect(after.hash).not.toBe(before.hash);
      expect(await adapter.send(after)).toEqual({ outcome: 'sent' });
      expect(await adapter.send(before)).toMatchObject({ outcome: 'refused' });
    });

    it('does not let it be built anew when somebody has sent what was signed', async () => {
      const before = await sign(ofTrx(trx));
      await adapter.send(before);
      const { number } = world.double.produce();
      pastExpiry(before, 60_000);
      await expect(adapter.prepare(ofTrx(trx), before.payload)).rejects.toMatchObject({
        name: 'RpcUnavailable',
        message: `Transaction ${before.hash}, which this payment was to be before, is in block ${number}: it must not be paid again.`,
      });
    });
  });
});
