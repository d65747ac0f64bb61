import type { Hex } from 'viem';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ChainAdapter } from '../../shared/chain/adapter.ts';
import { createEvmAdapter } from '../../shared/chain/evm/create-evm-adapter.ts';
import type { Logger } from '../../shared/log.ts';
import { type ChainWorld, createChainWorld, signPayment, type TestWallet, until } from '../support/chain-world.ts';
import type { RpcAnswer } from '../support/lagging-node.ts';
import { type RpcFaults, type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts';

const recipient = '0x00000000000000000000000000000000000000aa';
/** Reads that follow one another faster than any rest ends. */
const quickly = [1, 2, 3];

describe('several endpoints of one chain', () => {
  let world: ChainWorld;
  let wallet: TestWallet;
  let proxies: RpcProxy[];
  let lines: { level: string; fields: Record<string, unknown>; text: string }[];
  beforeAll(async () => {
    world = await createChainWorld();
  });
  afterAll(() => world.close());
  beforeEach(async () => {
    await world.node.setAutomine(true);
    wallet = await world.wallet();
    await world.node.setAutomine(false);
    proxies = await Promise.all([1, 2, 3].map(() => startRpcProxy({ target: world.local.rpcUrl })));
    lines = [];
  });
  afterEach(async () => {
    await Promise.all(proxies.map((each) => each.stop()));
  });

  /** Asks the proxies; what it logs is kept in `lines`. */
  function connect(urls = proxies.map((each) => `${each.url}/v3/secret-key?token=secret`)): ChainAdapter {
    const write = (level: string) => (fields: Record<string, unknown>, text: string) =>
      lines.push({ level, fields, text });
    const logger = { info: write('info'), warn: write('warn'), error: write('error') } as unknown as Logger;
    return createEvmAdapter({ chain: world.chain, urls, logger });
  }
  const set = (...faults: RpcFaults[]) => {
    faults.forEach((each, index) => {
      proxies[index]!.set(each);
    });
  };
  const read = async (adapter: ChainAdapter) => {
    const { data } = await adapter.balances({ owner: wallet.account.address });
    expect(data).toMatchObject([{ amountMinor: 10n ** 19n }, { amountMinor: 10n ** 10n }]);
  };
  const asked = (method = 'eth_blockNumber') => proxies.map((each) => each.requests(method));
  const failing = (code: number, message: string) => ({
    answer: (method: string, _: readonly unknown[], answer: RpcAnswer): RpcAnswer =>
      method === 'eth_chainId' ? answer : { error: { code, message } },
  });
  async function signed(): Promise<{ raw: Hex; hash: Hex }> {
    const row = await world.payment({ wallet, to: recipient, token: world.eth, amountMinor: 1n });
    const from = wallet.account.address;
    const prepared = await world.adapter().prepare({ from, to: recipient, token: world.eth, amountMinor: 1n });
    if (prepared.outcome !== 'ready') throw new Error(prepared.message);
    return signPayment({ wallet, row, prepared });
  }

  it('asks another one as well when the first takes long, and takes the answer that comes first', async () => {
    const { raw, hash } = await signed();
    await world.node.sendRawTransaction({ serializedTransaction: raw });
    await world.node.mine({ blocks: 1 });
    set({ hang: true });
    expect(await connect().inclusions({ hashes: [hash] })).toMatchObject([{ hash }]);
    expect(asked('eth_getTransactionReceipt').slice(0, 2)).toEqual([1, 1]);
  });

  it('asks one that hangs last from then on, and does not wait for it', async () => {
    const adapter = connect();
    set({ hang: true });
    for (const _ of [...quickly, ...quickly, ...quickly]) await read(adapter);
    expect(asked()[0]).toBe(1);
    expect(proxies[1]!.requests() + proxies[2]!.requests()).toBeGreaterThan(9);
  });

  it.each<[string, RpcFaults, string]>([
    ['resets connections', { down: true }, 'an endpoint of the chain fails'],
    ['is overloaded', { status: 503 }, 'an endpoint of the chain fails'],
    [
      'answers nonsense',
      { answer: () => ({ nonsense: true }) as unknown as RpcAnswer },
      'an endpoint of the chain fails',
    ],
    ['limits us for a minute', { status: 429, retryAfter: '60' }, 'an endpoint of the chain limits us'],
    [
      'limits us in JSON-RPC',
      failing(-32_005, 'project ID request rate exceeded'),
      'an endpoint of the chain limits us',
    ],
    ['limits us in words', failing(-32_000, 'Too Many Requests'), 'an endpoint of the chain limits us'],
  ])('goes on with the next one when the first %s, and says so once without secrets', async (_, fault, text) => {
    const adapter = connect();
    set(fault);
    await read(adapter);
    set({});
    const before = asked();
    for (const _ of quickly) await read(adapter);
    expect(asked()[0]).toBe(before[0]);
    expect(lines).toMatchObject([{ level: 'warn', text, fields: { host: new URL(proxies[0]!.url).host } }]);
    expect(JSON.stringify(lines)).not.toContain('secret');
  });

  it('rests for as long as an endpoint asks to be left alone', async () => {
    const adapter = connect();
    set({ status: 429, retryAfter: '60' });
    await read(adapter);
    expect(lines).toMatchObject([{ fields: { restMs: 60_000 } }]);
  });

  it('asks one that rests anyway when all others fail, and says that it works again', async () => {
    const adapter = connect();
    set({ status: 429, retryAfter: '60' });
    await read(adapter);
    set({}, { down: true }, { down: true });
    await read(adapter);
    expect(lines.at(-1)).toMatchObject({ level: 'info', text: 'an endpoint of the chain works again' });
  });

  it('is back as soon as any endpoint is, after all were down', async () => {
    const adapter = connect();
    set({ down: true }, { down: true }, { down: true });
    await expect(read(adapter)).rejects.toMatchObject({ name: 'RpcUnavailable' });
    await expect(read(adapter)).rejects.toMatchObject({ name: 'RpcUnavailable' });
    set({}, {}, {});
    await read(adapter);
  });

  it('asks again where a kept-alive connection was cut, and takes that for no failure', async () => {
    const adapter = connect([proxies[0]!.url]);
    await read(adapter);
    set({ down: true });
    set({});
    await read(adapter);
    expect(lines).toEqual([]);
  });

  it('believes that something is not there only if no endpoint has it', async () => {
    const { raw, hash } = await signed();
    await world.node.sendRawTransaction({ serializedTransaction: raw });
    await world.node.mine({ blocks: 1 });
    set({ lagBlocks: 5 }, { lagBlocks: 5 });
    expect(await connect().knows({ hash })).toBe(true);
    expect(await connect().inclusions({ hashes: [hash] })).toMatchObject([{ hash, succeeded: true }]);
    expect(await connect().inclusions({ hashes: [`0x${'11'.repeat(32)}`] })).toEqual([]);
  });

  it('never uses an endpoint of another chain, and says so loudly', async () => {
    const { raw, hash } = await signed();
    const other: RpcFaults = {
      answer: (method, _, answer) => {
        if (method === 'eth_chainId') return { result: '0x1' };
        if (method === 'eth_sendRawTransaction') return { result: hash };
        return method === 'eth_getBalance' ? { result: '0x0' } : answer;
      },
    };
    set(other);
    const adapter = connect();
    for (const _ of quickly) await read(adapter);
    expect(lines).toMatchObject([{ level: 'error', text: expect.stringContaining('ANOTHER CHAIN') }]);
    set(other, { down: true }, { down: true });
    await expect(connect().send({ raw })).rejects.toMatchObject({ name: 'RpcUnavailable' });
    set(other, other, other);
    await expect(read(connect())).rejects.toMatchObject({
      name: 'RpcUnavailable',
      message: expect.stringContaining('serves chain 1, not 31337'),
    });
  });

  it('hands bytes to all endpoints at once, and they are sent if any took them', async () => {
    const { raw, hash } = await signed();
    set({ dropAnswers: 1 }, { down: true });
    expect(await connect().send({ raw })).toEqual({ outcome: 'sent' });
    expect(asked('eth_sendRawTransaction')).toEqual([expect.any(Number), 0, 1]);
    await until(
      async () => asked('eth_sendRawTransaction')[0]!,
      (count) => count > 0,
    );
    expect(await world.adapter().knows({ hash })).toBe(true);
  });

  const cap = 'tx fee (2.00 ether) exceeds the configured cap (1.00 ether)';
  const poor = 'insufficient funds for gas * price + value';
  it.each<[string, (string | RpcFaults)[], string]>([
    ['one has them', [cap, 'nonce too low', 'already known'], 'sent'],
    ['one knows that the nonce is used', [cap, poor, 'nonce too low'], 'slot_taken'],
    ['one misses money', [cap, 'txpool is full', poor], 'unfunded'],
    ['one might take them later', [cap, cap, 'txpool is full'], 'RpcUnavailable'],
    ['all refuse', [cap, cap, cap], 'refused'],
    ['all that can be asked refuse', [cap, cap, { down: true }], 'refused'],
    ['only one can be asked, and refuses', [cap, { down: true }, { status: 429 }], 'RpcUnavailable'],
  ])('takes the most telling answer to bytes: %s', async (_, answers, outcome) => {
    set(...answers.map((each) => (typeof each === 'string' ? failing(-32_000, each) : each)));
    const { raw } = await signed();
    const result = await connect()
      .send({ raw })
      .catch((error: Error) => ({ outcome: error.name }));
    expect(result).toMatchObject({ outcome });
  });

  it('takes "nonce too low" for an answer, in whatever code, and uses the endpoint further (F5)', async () => {
    for (const code of [-32_603, -32_000, -32_001, -32_003, -32_005, -32_010, 3, 500]) {
      const { raw } = await signed();
      const adapter = connect([proxies[0]!.url]);
      set(failing(code, 'nonce too low: next nonce 5, tx nonce 4'));
      expect(await adapter.send({ raw })).toMatchObject({ outcome: 'slot_taken' });
      set({});
      await read(adapter);
    }
    expect(lines).toEqual([]);
  });
});
