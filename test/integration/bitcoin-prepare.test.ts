import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { PreparedTransfer } from '../../shared/chain/adapter.ts';
import type { BitcoinPrepared } from '../../shared/chain/bitcoin/prepared.ts';
import { payee, payeeKinds } from '../support/bitcoin-payees.ts';
import { type BitcoinWorld, buildPayment, createBitcoinWorld, signBitcoin } from '../support/bitcoin-world.ts';
import { type EsploraProxy, type Liar, startEsploraProxy } from '../support/esplora-proxy.ts';

describe('preparing a payment of BTC', () => {
  let world: BitcoinWorld;
  let proxy: EsploraProxy;
  const through: { urls: string[] } = { urls: [] };
  beforeAll(async () => {
    world = await createBitcoinWorld();
    proxy = await startEsploraProxy({ target: world.bitcoin.url });
    through.urls.push(proxy.url);
  });
  afterEach(() => proxy.set({}));
  afterAll(async () => {
    await proxy.stop();
    await world.close();
  });

  const to = payee('p2wpkh');
  const prepare = (from: string, amountMinor: bigint, o: Parameters<BitcoinWorld['adapter']>[0] = {}) =>
    world.adapter(o).prepare({ from, to, token: world.btc, amountMinor });
  const ready = async (...p: Parameters<typeof prepare>) => {
    const prepared = await prepare(...p);
    if (prepared.outcome !== 'ready') throw new Error(prepared.message);
    return prepared as PreparedTransfer & BitcoinPrepared;
  };
  const height = () => world.bitcoin.rpc<number>('getblockcount');
  /** Answers of another fee rate, in satoshis for a virtual byte. */
  const estimates = (body: Record<string, number>) =>
    proxy.set({ answer: (path, answer) => (path === '/fee-estimates' ? { status: 200, body } : answer) });

  it('tells balance and coins as of the newest block, the largest first', async () => {
    const { address } = await world.wallet({ coinsSat: [30_000n, 5_000_000n, 400_000n] });
    const prepared = await ready(address, 10_000n);
    expect(prepared).toMatchObject({
      atBlock: await height(),
      balanceMinor: '5430000',
      nativeBalanceMinor: '5430000',
      satPerKvb: '2000',
    });
    expect(prepared.coins.map(({ valueSat }) => valueSat)).toEqual(['5000000', '400000', '30000']);
    expect(await world.adapter().balances({ owner: address })).toEqual({
      atBlock: await height(),
      data: [{ token: world.btc, amountMinor: 5_430_000n }],
    });
  });

  it('counts nothing that waits for its block, and everything that is being spent', async () => {
    const wallet = await world.wallet({ coinsSat: [1_000_000n, 600_000n] });
    const row = await world.payment({ wallet, to, amountMinor: 700_000n });
    const transaction = await buildPayment({ wallet, row, prepared: await ready(wallet.address, 700_000n) });
    await world.adapter().send(signBitcoin({ wallet, transaction }));
    const prepared = await ready(wallet.address, 500_000n);
    expect(prepared.balanceMinor).toBe('1600000');
    expect(prepared.coins.map(({ valueSat }) => valueSat)).toEqual(['600000']);
    await world.bitcoin.mine();
    const fee =
      transaction.inputs.reduce((sum, each) => sum + BigInt(each.valueSat), 0n) -
      transaction.outputs.reduce((sum, each) => sum + BigInt(each.valueSat), 0n);
    expect((await ready(wallet.address, 500_000n)).balanceMinor).toBe(String(900_000n - fee));
  });

  it('says of a payment that waits for change what it will cost, and not that money is missing', async () => {
    const wallet = await world.wallet({ coinsSat: [1_000_000n] });
    const row = await world.payment({ wallet, to, amountMinor: 100_000n });
    const transaction = await buildPayment({ wallet, row, prepared: await ready(wallet.address, 100_000n) });
    await world.adapter().send(signBitcoin({ wallet, transaction }));
    const prepared = await ready(wallet.address, 500_000n);
    expect(prepared).toMatchObject({ balanceMinor: '1000000', coins: [] });
    expect(Number(prepared.maxFeeMinor)).toBeGreaterThan(0);
    await expect(buildPayment({ wallet, row, prepared })).rejects.toThrow('wait');
    await world.bitcoin.mine();
  });

  it('says in words what is missing', async () => {
    const { address } = await world.wallet({ coinsSat: [100_000n] });
    const atBlock = await height();
    expect(await prepare(address, 100_001n)).toEqual({
      outcome: 'failed',
      code: 'insufficient_funds',
      message: 'The wallet holds 0.001 BTC, less than the 0.00100001 BTC to be sent.',
      details: { token: 'BTC', balance: '0.001', required: '0.00100001' },
      atBlock,
    });
    expect(await prepare(address, 100_000n)).toMatchObject({
      outcome: 'failed',
      code: 'insufficient_funds',
      message: 'The wallet holds 0.001 BTC, but 0.001 and a fee of 0.0000022 BTC need 0.0010022 BTC.',
      details: { token: 'BTC', balance: '0.001', required: '0.0010022', max_fee: '0.0000022' },
      atBlock,
    });
    expect(await prepare(payee('p2wpkh'), 1_000n)).toMatchObject({ code: 'insufficient_funds', atBlock });
  });

  it('refuses dust, by the kind of the recipient’s address, and the node agrees', async () => {
    const wallet = await world.wallet();
    const least = { p2pkh: 546n, p2sh: 540n, p2wpkh: 294n, p2wsh: 330n, p2tr: 330n };
    for (const kind of payeeKinds) {
      const recipient = payee(kind);
      const pay = (amountMinor: bigint) =>
        world.adapter().prepare({ from: wallet.address, to: recipient, token: world.btc, amountMinor });
      expect(await pay(least[kind] - 1n)).toMatchObject({
        outcome: 'failed',
        code: 'simulation_failed',
        message: expect.stringMatching(/^The transfer of BTC would fail on the chain: 0\.0{5}\d+ BTC are dust: /),
      });
      expect(await pay(least[kind])).toMatchObject({ outcome: 'ready' });
      const [coin] = (await ready(wallet.address, 1_000n)).coins;
      const spend = (amount: bigint) => {
        const change = { address: wallet.address, valueSat: String(BigInt(coin!.valueSat) - amount - 2_000n) };
        const outputs = [{ address: recipient, valueSat: String(amount) }, change];
        return signBitcoin({ wallet, transaction: { inputs: [coin!], outputs, lockTime: 0 } });
      };
      const refused = await world.adapter().send(spend(least[kind] - 1n));
      expect(refused).toMatchObject({ outcome: 'refused', reason: expect.stringContaining('dust') });
      expect(await world.adapter().send(spend(least[kind]))).toEqual({ outcome: 'sent' });
      await world.bitcoin.mine();
    }
  });

  it('pays every kind of address', async () => {
    for (const kind of payeeKinds) {
      const wallet = await world.wallet({ coinsSat: [200_000n] });
      const recipient = payee(kind);
      const row = await world.payment({ wallet, to: recipient, amountMinor: 54_321n });
      const prepared = await world
        .adapter()
        .prepare({ from: wallet.address, to: recipient, token: world.btc, amountMinor: 54_321n });
      if (prepared.outcome !== 'ready') throw new Error(prepared.message);
      const signed = signBitcoin({ wallet, transaction: await buildPayment({ wallet, row, prepared }) });
      expect(await world.adapter().send(signed)).toEqual({ outcome: 'sent' });
      await world.bitcoin.mine();
      const { balanceMinor } = (await world
        .adapter()
        .prepare({ from: recipient, to, token: world.btc, amountMinor: 1_000n })) as PreparedTransfer;
      expect(balanceMinor, kind).toBe('54321');
    }
  });

  it('takes the estimate for three blocks, and the nearest where there is none', async () => {
    const { address } = await world.wallet();
    estimates({ '1': 20.5, '2': 11, '3': 10.0001, '6': 4 });
    expect((await ready(address, 1_000n, through)).satPerKvb).toBe('10001');
    estimates({ '2': 11, '6': 4 });
    expect((await ready(address, 1_000n, through)).satPerKvb).toBe('11000');
    estimates({ '6': 4 });
    expect((await ready(address, 1_000n, through)).satPerKvb).toBe('4000');
  });

  it('pays no less than nodes take, and none above the ceiling', async () => {
    const { address } = await world.wallet();
    estimates({ '3': 0.2 });
    expect((await ready(address, 1_000n, through)).satPerKvb).toBe('1000');
    estimates({ '3': 50.5 });
    await expect(prepare(address, 1_000n, { ...through, ceilingSatPerKvb: 50_000n })).rejects.toThrow(
      'bip122:0f9188f13cb7b2c71f2a335e3a4fc328 asks 50.5 satoshis for a virtual byte now, more than the ceiling of 50 satoshis.',
    );
    expect((await ready(address, 1_000n, { ...through, ceilingSatPerKvb: 50_500n })).ceilingSatPerKvb).toBe('50500');
    expect(
      await world.adapter({ ...through, ceilingSatPerKvb: 50_000n }).replacementTerms({ owner: address }),
    ).toMatchObject({ satPerKvb: '50500', ceilingSatPerKvb: '50000', nativeBalanceMinor: '100000000' });
  });

  it('has a payment wait rather than guess a fee from nonsense', async () => {
    const { address } = await world.wallet();
    for (const body of [{ '3': -1 }, { '3': 'much' }, { soon: 5 }, [5]]) {
      estimates(body as never);
      await expect(prepare(address, 1_000n, through)).rejects.toMatchObject({ name: 'RpcUnavailable' });
    }
  });

  describe('with many coins', () => {
    const coinsSat = Array.from({ length: 500 }, (_, index) => 10_000n + BigInt(index));

    it('knows the whole balance, reads the largest, and pays from fifty at most', async () => {
      const wallet = await world.wallet({ coinsSat });
      const total = coinsSat.reduce((sum, each) => sum + each, 0n);
      const prepared = await ready(wallet.address, 400_000n);
      expect(prepared.balanceMinor).toBe(String(total));
      expect(prepared.coins).toHaveLength(200);
      expect(prepared.coins[0]!.valueSat).toBe('10499');
      const row = await world.payment({ wallet, to, amountMinor: 400_000n });
      const transaction = await buildPayment({ wallet, row, prepared });
      expect(transaction.inputs.length).toBeGreaterThan(35);
      const signed = signBitcoin({ wallet, transaction });
      expect(await world.adapter().send(signed)).toEqual({ outcome: 'sent' });
      await world.bitcoin.mine();
      expect(await prepare(wallet.address, 700_000n)).toMatchObject({
        code: 'simulation_failed',
        message: expect.stringContaining('the wallet’s money lies in many small coins'.replace('’', "'")),
      });
    });

    it('finds coins of a wallet that has more than a server lists', async () => {
      const wallet = await world.wallet({ coinsSat });
      await world.bitcoin.pay([
        { address: wallet.address, valueSat: 900_000n },
        { address: wallet.address, valueSat: 800_000n },
      ]);
      proxy.set({
        answer: (path, answer) =>
          path.endsWith('/utxo')
            ? { status: 400, body: 'Too many unspent transaction outputs (>500). Contact support to raise limits.' }
            : answer,
      });
      const prepared = await ready(wallet.address, 850_000n, through);
      expect(prepared.coins.slice(0, 3).map(({ valueSat }) => valueSat)).toEqual(['900000', '800000', '10499']);
      const row = await world.payment({ wallet, to, amountMinor: 850_000n });
      const signed = signBitcoin({ wallet, transaction: await buildPayment({ wallet, row, prepared }) });
      expect(await world.adapter(through).send(signed)).toEqual({ outcome: 'sent' });
      // Being spent: not offered again.
      expect((await ready(wallet.address, 850_000n, through)).coins[0]!.valueSat).toBe('800000');
      await world.bitcoin.mine();
      const [largest] = (await ready(wallet.address, 1_000n, through)).coins;
      expect(largest!.valueSat).toBe('800000');
    });

    it('says what such a wallet can pay at most, instead of waiting for coins that are too old to be found', async () => {
      const wallet = await world.wallet({ coinsSat });
      await world.bitcoin.pay([{ address: wallet.address, valueSat: 900_000n }]);
      const tooMany: Liar = (path, answer) =>
        path.endsWith('/utxo') ? { status: 400, body: 'Too many unspent transaction outputs (>500).' } : answer;
      // As after twelve pages: what is older is not told.
      const newest: Liar = (path, answer) => {
        if (!path.includes('/txs/chain')) return tooMany(path, answer);
        const page = answer.body as { vout: { value: number }[] }[];
        return { ...answer, body: page.filter(({ vout }) => vout.some(({ value }) => value === 900_000)) };
      };
      proxy.set({ answer: newest });
      expect((await ready(wallet.address, 850_000n, through)).coins).toHaveLength(1);
      expect(await prepare(wallet.address, 950_000n, through)).toMatchObject({
        code: 'simulation_failed',
        message: expect.stringContaining('which pay 0.0089978 BTC at most'),
      });
      // Change under way is waited for, as it is of other wallets.
      const row = await world.payment({ wallet, to, amountMinor: 100_000n });
      const prepared = await ready(wallet.address, 100_000n, through);
      const signed = signBitcoin({ wallet, transaction: await buildPayment({ wallet, row, prepared }) });
      expect(await world.adapter().send(signed)).toEqual({ outcome: 'sent' });
      proxy.set({ answer: tooMany });
      expect((await ready(wallet.address, 800_000n, through)).coins[0]!.valueSat).toBe('10499');
      await world.bitcoin.mine();
    });
  });
});
