import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { BitcoinPrepared } from '../../shared/chain/bitcoin/prepared.ts';
import { type BitcoinOperator, createBitcoinOperator } from '../support/bitcoin-operator.ts';
import { payee } from '../support/bitcoin-payees.ts';
import {
  type BitcoinWallet,
  type BitcoinWorld,
  buildPayment,
  createBitcoinWorld,
  signBitcoin,
} from '../support/bitcoin-world.ts';
import { copyBlocks, startTestBitcoin, type TestBitcoin } from '../support/btcd.ts';
import { until } from '../support/chain-world.ts';
import { type EsploraProxy, type Liar, startEsploraProxy } from '../support/esplora-proxy.ts';

const madeUp = 'cd'.repeat(32);
const mainnet = '000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f';

describe('servers of a Bitcoin chain that lag, lie or fail', () => {
  let world: BitcoinWorld;
  let operator: BitcoinOperator;
  /** A node of its own, which has the blocks that the test gives it. */
  let slow: TestBitcoin;
  let proxies: EsploraProxy[];
  beforeAll(async () => {
    [world, slow] = await Promise.all([createBitcoinWorld(), startTestBitcoin({ isEmpty: true })]);
    operator = createBitcoinOperator(world.bitcoin.node);
    proxies = await Promise.all([1, 2].map(() => startEsploraProxy({ target: world.bitcoin.url })));
    await catchUp();
  });
  afterEach(async () => {
    for (const each of proxies) each.set({});
    await world.bitcoin.mine();
    await catchUp();
  });
  afterAll(async () => {
    await Promise.all(proxies.map((each) => each.stop()));
    await Promise.all([world.close(), slow.stop()]);
  });

  const to = payee('p2wpkh');
  const catchUp = () => copyBlocks({ from: world.bitcoin.rpc, to: slow.rpc });
  const height = () => world.bitcoin.rpc<number>('getblockcount');
  const lie = (answer: Liar) => proxies[0]!.set({ answer });
  /** A liar or one that fails, one that lags, and one that does neither. */
  const three = (o: { confirmations?: number } = {}) =>
    world.adapter({ ...o, urls: [proxies[0]!.url, slow.url, proxies[1]!.url] });
  const two = () => world.adapter({ urls: [world.bitcoin.url, slow.url] });

  async function signed(wallet: BitcoinWallet, amountMinor = 10_000n) {
    const row = await world.payment({ wallet, to, amountMinor });
    const prepared = await world.adapter().prepare({ from: wallet.address, to, token: world.btc, amountMinor });
    if (prepared.outcome !== 'ready') throw new Error(prepared.message);
    const transaction = await buildPayment({ wallet, row, prepared });
    return { transaction, ...signBitcoin({ wallet, transaction }) };
  }

  it('uses no server of another chain, and says so', async () => {
    const wallet = await world.wallet();
    lie((path, answer) => (path === '/block-height/0' ? { status: 200, body: mainnet } : answer));
    const alone = world.adapter({ urls: [proxies[0]!.url] });
    await expect(alone.head()).rejects.toThrow(
      'An endpoint serves chain bip122:000000000019d6689c085ae165831e93, not bip122:0f9188f13cb7b2c71f2a335e3a4fc328.',
    );
    const { raw } = await signed(wallet);
    await expect(world.adapter({ urls: [proxies[0]!.url] }).send({ raw })).rejects.toMatchObject({
      name: 'RpcUnavailable',
    });
    const both = world.adapter({ urls: [proxies[0]!.url, world.bitcoin.url] });
    expect((await both.head()).number).toBe(await height());
  });

  it('names neither addresses nor credentials of servers in errors', async () => {
    proxies[0]!.set({ answer: () => ({ status: 500, body: `down at ${proxies[0]!.url}/very-secret-key` }) });
    const url = `${proxies[0]!.url}/very-secret-key`;
    const error: unknown = await world
      .adapter({ urls: [url] })
      .head()
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name: 'RpcUnavailable' });
    expect((error as Error).message).not.toMatch(/very-secret-key|127\.0\.0\.1/);
  });

  it('goes on while one of three is down', async () => {
    const wallet = await world.wallet();
    await catchUp();
    proxies[0]!.set({ down: true });
    const adapter = three();
    expect((await adapter.head()).number).toBe(await height());
    const { raw, hash } = await signed(wallet);
    expect(await adapter.send({ raw })).toEqual({ outcome: 'sent' });
    // One that has it is enough: the others hear of it in their own time.
    await until(
      () => world.adapter().knows({ hash }),
      (isKnown) => isKnown,
    );
    const [block] = await world.bitcoin.mine();
    await catchUp();
    const placed = [{ hash, blockNumber: await height() }];
    expect(await adapter.agreedInclusions({ placed })).toMatchObject([
      { outcome: 'included', inclusion: { blockHash: block } },
    ]);
  });

  it('has the head where most are, whoever lags or tells of blocks that are not there', async () => {
    await world.bitcoin.mine(3);
    expect((await three().head()).number).toBe(await height());
    expect((await two().head()).number).toBe((await height()) - 3);
    await catchUp();
    lie((path, answer) => {
      if (path === '/blocks/tip/hash') return { status: 200, body: madeUp };
      if (path === `/block/${madeUp}/txids`) return { status: 200, body: [madeUp] };
      const block = { id: madeUp, height: 100_000, previousblockhash: mainnet };
      return path === `/block/${madeUp}` ? { status: 200, body: block } : answer;
    });
    expect((await three().head()).number).toBe(await height());
  });

  it('with two makes final only what both say, and waits for the second', async () => {
    const { raw, hash } = await signed(await world.wallet());
    await catchUp();
    const adapter = two();
    await world.adapter().send({ raw });
    await world.bitcoin.mine();
    const placed = [{ hash, blockNumber: await height() }];
    expect(await adapter.inclusions({ hashes: [hash] })).toMatchObject([{ hash }]);
    expect(await adapter.agreedInclusions({ placed })).toMatchObject([{ outcome: 'undecided' }]);
    await catchUp();
    expect(await adapter.agreedInclusions({ placed })).toMatchObject([{ outcome: 'included' }]);
  });

  it('believes no single server that a payment is in a block, or is not, or cost something else', async () => {
    const wallet = await world.wallet();
    const { raw, hash } = await signed(wallet);
    await catchUp();
    const adapter = three();
    const number = await height();
    const block = await world.bitcoin.rpc<string>('getblockhash', number);
    lie((path, answer) =>
      path === `/tx/${hash}`
        ? {
            status: 200,
            body: { txid: hash, fee: 7, status: { confirmed: true, block_height: number, block_hash: block } },
          }
        : answer,
    );
    const placed = [{ hash, blockNumber: number }];
    expect(await adapter.agreedInclusions({ placed })).toMatchObject([{ outcome: 'absent' }]);
    await world.adapter().send({ raw });
    await world.bitcoin.mine();
    await catchUp();
    const [agreed] = await adapter.agreedInclusions({ placed: [{ hash, blockNumber: number + 1 }] });
    expect(agreed).toMatchObject({ outcome: 'included', inclusion: { blockNumber: number + 1 } });
    expect((agreed as { inclusion: { feeMinor: bigint } }).inclusion.feeMinor).not.toBe(7n);
    lie((path, answer) => (path === `/tx/${hash}` ? { status: 404, body: 'Transaction not found' } : answer));
    expect(await adapter.agreedInclusions({ placed })).toMatchObject([{ outcome: 'included' }]);
  });

  it('believes nobody what a coin holds but the transaction that made it, and has nothing signed meanwhile', async () => {
    const { address } = await world.wallet({ coinsSat: [400_000n, 500_000n] });
    const alone = world.adapter({ urls: [proxies[0]!.url] });
    const prepare = (adapter = alone) =>
      adapter.prepare({ from: address, to, token: world.btc, amountMinor: 450_000n });
    /** Asked again where a server is too slow to be heard. */
    const said = (adapter = alone) =>
      expect.poll(
        () =>
          prepare(adapter).then(
            ({ outcome }) => outcome,
            ({ message }: Error) => message,
          ),
        {
          timeout: 120_000,
        },
      );
    interface Told {
      txid: string;
      vout: number;
      value: number;
    }
    const tell =
      (change: (coin: Told) => Partial<Told>): Liar =>
      (path, answer) =>
        path.endsWith('/utxo')
          ? { status: 200, body: (answer.body as Told[]).map((coin) => ({ ...coin, ...change(coin) })) }
          : answer;
    for (const [more, told] of [
      [1, '500001'],
      [-400_000, '100000'],
    ] as const) {
      lie(tell(({ value }) => (value === 500_000 ? { value: value + more } : {})));
      await said().toMatch(
        new RegExp(
          `^Servers say that coin [0-9a-f]{64}:\\d+ of the wallet holds ${told} sat; its transaction says 500000 sat\\.$`,
        ),
      );
    }
    // Another output of the same transaction, and one that is not there.
    const other = (await world.wallet({ coinsSat: [7_000n] })).address;
    const { body: foreign } = {
      body: (await (await fetch(`${world.bitcoin.url}/address/${other}/utxo`)).json()) as Told[],
    };
    lie(tell(({ value }) => (value === 500_000 ? foreign[0]! : {})));
    await said().toMatch(/holds 7000 sat; it is none of the wallet\.$/);
    lie(tell(({ value }) => (value === 500_000 ? { vout: 77 } : {})));
    await said().toMatch(/:77 of the wallet holds 500000 sat; its transaction has no such output\.$/);
    // A transaction that is made up along with the coin has another id.
    lie((path, answer) => {
      if (!path.endsWith('/hex'))
        return tell(({ value }) => (value === 500_000 ? { value: 500_001 } : {}))(path, answer);
      const value = (sat: number) => Buffer.from(new BigUint64Array([BigInt(sat)]).buffer).toString('hex');
      return { status: 200, body: String(answer.body).replace(value(500_000), value(500_001)) };
    });
    const fresh = world.adapter({ urls: [proxies[0]!.url] });
    await said(fresh).toMatch(/^No server shows the transaction [0-9a-f]{64}, which made a coin/);
    lie((path, answer) => (path.endsWith('/hex') ? { status: 404, body: 'Transaction not found' } : answer));
    await said(fresh).toMatch(/^No server shows the transaction/);
    proxies[0]!.set({});
    await said(fresh).toBe('ready');
    // What was proven once is not asked for again.
    proxies[0]!.set({});
    await said(fresh).toBe('ready');
    expect(proxies[0]!.asked().filter((path) => path.endsWith('/hex'))).toEqual([]);
  });

  it('pays from the coins that are proven while others cannot be', async () => {
    const { address } = await world.wallet({ coinsSat: Array.from({ length: 40 }, (_, n) => 20_000n + BigInt(n)) });
    await world.bitcoin.pay([{ address, valueSat: 1_000n }]);
    const utxos = (await (await fetch(`${world.bitcoin.url}/address/${address}/utxo`)).json()) as {
      txid: string;
      value: number;
    }[];
    const hidden = utxos.find(({ value }) => value === 1_000)!.txid;
    lie((path, answer) => (path === `/tx/${hidden}/hex` ? { status: 404, body: 'Transaction not found' } : answer));
    const adapter = world.adapter({ urls: [proxies[0]!.url] });
    const prepare = () => adapter.prepare({ from: address, to, token: world.btc, amountMinor: 30_000n });
    // Asked again where a server is too slow to be heard.
    const prepared = (await until(
      () => prepare().catch((error: Error) => error) as Promise<unknown>,
      (answer) => (answer as Partial<BitcoinPrepared>).coins?.length === 40,
      { timeoutMs: 120_000 },
    )) as BitcoinPrepared;
    expect(prepared.coins.map(({ txid }) => txid)).not.toContain(hidden);
  });

  it('takes no coin that one server alone tells of, nor a value that it alone gives', async () => {
    const wallet = await world.wallet({ coinsSat: [500_000n, 400_000n] });
    await catchUp();
    const status = { confirmed: true, block_height: 1, block_hash: madeUp };
    lie((path, answer) => {
      if (!path.endsWith('/utxo')) return answer;
      const [first, ...rest] = answer.body as { value: number }[];
      const invented = { txid: madeUp, vout: 0, value: 1_000_000_000, status };
      return { status: 200, body: [invented, { ...first, value: first!.value + 1 }, ...rest] };
    });
    const prepared = await three().prepare({ from: wallet.address, to, token: world.btc, amountMinor: 100_000n });
    expect(prepared).toMatchObject({ outcome: 'ready', balanceMinor: '900000' });
    expect((prepared as { coins?: unknown[] }).coins).toHaveLength(2);
    expect((prepared as { coins?: unknown[] }).coins).toMatchObject([{ valueSat: '500000' }, { valueSat: '400000' }]);
  });

  it('does not take the word of one server for what spends a coin', async () => {
    const wallet = await world.wallet();
    const { raw, transaction } = await signed(wallet);
    await catchUp();
    const number = await height();
    const block = await world.bitcoin.rpc<{ tx: string[]; hash: string }>(
      'getblock',
      await world.bitcoin.rpc<string>('getblockhash', number),
      1,
    );
    const status = { confirmed: true, block_height: number, block_hash: block.hash };
    lie((path, answer) =>
      path.includes('/outspend/') ? { status: 200, body: { spent: true, txid: block.tx[0], vin: 0, status } } : answer,
    );
    expect(await three().slotOwner({ raw })).toBeUndefined();
    // And of all together only what the transaction itself says.
    expect(await world.adapter({ urls: [proxies[0]!.url] }).slotOwner({ raw })).toBeUndefined();
    const foreign = signBitcoin({
      wallet,
      transaction: { ...transaction, outputs: [{ address: to, valueSat: '90000000' }] },
    });
    await world.adapter().send(foreign);
    await world.bitcoin.mine();
    await catchUp();
    lie((path, answer) => (path.includes('/outspend/') ? { status: 200, body: { spent: false } } : answer));
    expect(await three().slotOwner({ raw })).toMatchObject({ inclusion: { hash: foreign.hash }, samePayment: false });
  });

  it('refuses bytes for good only when most have looked at them and all of these refuse', async () => {
    const { raw } = await signed(await world.wallet());
    await catchUp();
    const refuse: Liar = (path, answer) =>
      path === '/tx' ? { status: 400, body: 'sendrawtransaction RPC error: {"code":-26,"message":"dust"}' } : answer;
    proxies[0]!.set({ answer: refuse });
    const pair = world.adapter({ urls: proxies.map(({ url }) => url) });
    proxies[1]!.set({ down: true });
    await expect(pair.send({ raw })).rejects.toMatchObject({ name: 'RpcUnavailable' });
    proxies[1]!.set({ answer: refuse });
    expect(await world.adapter({ urls: proxies.map(({ url }) => url) }).send({ raw })).toEqual({
      outcome: 'refused',
      reason: 'dust',
    });
    expect(await three().send({ raw })).toEqual({ outcome: 'sent' });
  });

  it('follows the branch that most show', async () => {
    const [orphan] = await world.bitcoin.mine();
    const number = await height();
    await catchUp();
    await operator.reorg(1);
    const adapter = three();
    expect((await adapter.blocks({ numbers: [number] }))[0]?.hash).not.toBe(orphan);
    expect((await adapter.head()).number).toBe(number + 1);
    const other = world.adapter({ urls: [slow.url] });
    expect((await other.blocks({ numbers: [number] }))[0]?.hash).toBe(orphan);
    await catchUp();
    expect((await other.blocks({ numbers: [number] }))[0]?.hash).not.toBe(orphan);
  });
});
