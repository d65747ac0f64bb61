import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ChainAdapter, Transfer } from '../../shared/chain/adapter.ts';
import type { Signed } from '../../shared/chain/family.ts';
import type { TronPrepared } from '../../shared/chain/tron/prepared.ts';
import type { TransactionPayload } from '../../shared/domain/receipt.ts';
import type { Logger } from '../../shared/log.ts';
import { startTronNodeDouble, type TronFaults } from '../support/tron-node-double.ts';
import {
  buildTron,
  createTronWorld,
  freeze,
  prepareReady,
  signTron,
  type TronWallet,
  type TronWorld,
} from '../support/tron-world.ts';

const trx = 1_000_000n;

describe('several endpoints of Tron', () => {
  let world: TronWorld;
  let payer: TronWallet;
  let lines: string[];
  beforeEach(async () => {
    world = await createTronWorld();
    payer = world.wallet({ trx: 1_000n * trx, usdt: 500_000_000n });
    lines = [];
  });
  afterEach(() => world.stop());

  const write = (level: string) => (fields: unknown, text: string) =>
    lines.push(`${level} ${JSON.stringify(fields)} ${text}`);
  const logger = { info: write('info'), warn: write('warn'), error: write('error') } as unknown as Logger;
  /** @param count of the nodes, the last ones first */
  const adapterOf = (count: number) =>
    world.adapter({ urls: world.nodes.slice(0, count).map(({ url }) => url), logger });
  const transfer = (amountMinor: bigint): Transfer => ({
    ...{ from: payer.address, to: 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8', token: world.usdt, amountMinor },
  });
  interface Payment extends Signed {
    readonly payload: TransactionPayload;
    readonly expirationMs: number;
  }
  async function sign(adapter: ChainAdapter<TronPrepared>): Promise<Payment> {
    const prepared = await prepareReady(adapter, transfer(7n));
    const payload = await buildTron(adapter, transfer(7n), prepared);
    return { payload, expirationMs: prepared.expirationMs, ...(await signTron(payload, payer)) };
  }
  const lie = (index: number, answer: NonNullable<TronFaults['answer']>) => world.nodes[index]!.set({ answer });
  const outcomeOf = async (adapter: ChainAdapter, { hash }: Signed, blockNumber: number) =>
    (await adapter.agreedInclusions({ placed: [{ hash, blockNumber }] }))[0]!.outcome;

  it('goes by what most have: one that lags neither holds the head nor what is final', async () => {
    const adapter = adapterOf(3);
    const payment = await sign(adapter);
    await freeze(world.nodes[0]!);
    await adapter.send(payment);
    const { number, id } = world.double.produce();
    expect(await adapter.head()).toMatchObject({ number, hash: id });
    world.solidify();
    expect(await outcomeOf(adapter, payment, number)).toBe('included');
    // What is behind is asked, and says less.
    const { data, atBlock } = await adapter.balances({ owner: payer.address });
    expect(atBlock).toBe(world.double.solid.number);
    expect(data[1]).toMatchObject({ amountMinor: 499_999_993n });
  });

  it('makes nothing final with two endpoints of which one lags', async () => {
    const adapter = adapterOf(2);
    const payment = await sign(adapter);
    await freeze(world.nodes[1]!);
    await adapter.send(payment);
    const { number } = world.double.produce();
    world.solidify();
    expect(await outcomeOf(adapter, payment, number)).toBe('undecided');
    world.nodes[1]!.set({});
    expect(await outcomeOf(adapter, payment, number)).toBe('included');
  });

  it('believes no single endpoint that a payment has succeeded, failed, or cost something else', async () => {
    const adapter = adapterOf(3);
    const payment = await sign(adapter);
    await adapter.send(payment);
    const { number } = world.double.produce();
    world.solidify();
    lie(0, (path, _, answer) =>
      path.endsWith('gettransactioninfobyid')
        ? { ...(answer as object), fee: 1, result: 'FAILED', receipt: { result: 'REVERT' } }
        : answer,
    );
    const [agreed] = await adapter.agreedInclusions({ placed: [{ hash: payment.hash, blockNumber: number }] });
    expect(agreed).toMatchObject({ inclusion: { succeeded: true, feeMinor: 13_028_500n } });
    const invented = await sign(adapter);
    lie(0, (path, body, answer) =>
      path.endsWith('gettransactioninfobyid') && body.value === invented.hash
        ? { id: invented.hash, blockNumber: number, receipt: { result: 'SUCCESS' } }
        : answer,
    );
    expect(await outcomeOf(adapter, invented, number)).toBe('absent');
  });

  it.each([2, 3])('ends no payment because one of %i endpoints says that it has expired', async (count) => {
    const adapter = adapterOf(count);
    const payment = await sign(adapter);
    await adapter.send(payment);
    const { number } = world.double.produce();
    world.solidifyPast(payment.expirationMs + 31_000);
    lie(0, (path, _, answer) => (path.endsWith('gettransactioninfobyid') ? {} : answer));
    expect(await adapter.isExpired(payment)).toBe(false);
    await expect(adapter.prepare(transfer(7n), payment.payload)).rejects.toThrow('is in block');
    expect(await outcomeOf(adapter, payment, number)).toBe(count === 3 ? 'included' : 'undecided');
  });

  it('ends no payment by a clock that only one endpoint shows', async () => {
    const adapter = adapterOf(2);
    const payment = await sign(adapter);
    await freeze(world.nodes[1]!);
    world.solidifyPast(payment.expirationMs + 31_000);
    expect(await adapter.isExpired(payment)).toBe(false);
    world.nodes[1]!.set({});
    expect(await adapter.isExpired(payment)).toBe(true);
  });

  it.each(['an error', 'HTTP 404'])('ends no payment by an endpoint that answers with %s', async (kind) => {
    const [node] = world.nodes;
    const isAsked = (path: string) => path.includes('gettransaction');
    const gate = await startGate(async (path, body) => {
      if (!isAsked(path)) return (await fetch(node!.url + path, { method: 'POST', body })).text();
      return kind === 'an error' ? '{"Error":"class java.lang.Exception : no such table"}' : undefined;
    });
    const adapter = world.adapter({ urls: [gate.url] });
    const payment = await sign(adapter);
    world.solidifyPast(payment.expirationMs + 31_000);
    expect(await adapter.isExpired(payment).catch(() => false)).toBe(false);
    await gate.stop();
  });

  it('ends no payment by an endpoint that keeps no receipts', async () => {
    const adapter = adapterOf(1);
    const payment = await sign(adapter);
    await adapter.send(payment);
    world.double.produce();
    lie(0, (path, _, answer) => (path.endsWith('gettransactioninfobyid') ? {} : answer));
    world.solidifyPast(payment.expirationMs + 31_000);
    expect(await adapter.isExpired(payment)).toBe(false);
    await expect(adapter.prepare(transfer(7n), payment.payload)).rejects.toThrow('may still be taken');
  });

  it('ends no payment that a block holds which is not solidified where it should be', async () => {
    const adapter = adapterOf(3);
    const payment = await sign(adapter);
    await adapter.send(payment);
    world.double.produce();
    world.solidifyPast(payment.expirationMs + 31_000);
    for (const index of [0, 1, 2])
      lie(index, (path, _, answer) => (path === '/walletsolidity/gettransactioninfobyid' ? {} : answer));
    expect(await adapter.isExpired(payment)).toBe(false);
  });

  it('takes no balance of one that lags, though nobody else tells any', async () => {
    const adapter = adapterOf(3);
    await freeze(world.nodes[0]!);
    world.solidify();
    for (const index of [1, 2])
      lie(index, (path, _, answer) => (path.endsWith('getaccount') ? { Error: 'class java.lang.Exception' } : answer));
    await expect(adapter.balances({ owner: payer.address })).rejects.toMatchObject({ name: 'RpcUnavailable' });
  });

  it('follows no endpoint that claims to be ahead of all others', async () => {
    const number = world.double.head.number + 1_000;
    const blockID = number.toString(16).padStart(16, '0') + 'ab'.repeat(24);
    lie(0, (path, body, answer) => {
      if (path.endsWith('getaccount')) return { ...(answer as object), balance: 5_000_000_000_000 };
      // The first block is the chain's own: it would not be asked else.
      if (!path.includes('block') || body.num === 0) return answer;
      const raw_data = { number, parentHash: blockID, timestamp: Date.now() + 3_600_000 };
      return { blockID, block_header: { raw_data } };
    });
    const adapter = adapterOf(3);
    expect(await adapter.head()).toMatchObject({ hash: world.double.head.id });
    const prepared = await prepareReady(adapter, transfer(7n));
    expect(prepared).toMatchObject({ atBlock: world.double.solid.number, nativeBalanceMinor: String(1_000n * trx) });
    expect(prepared.expirationMs).toBeLessThanOrEqual(world.double.head.timestampMs + 600_000);
  });

  it('refers to the block that most have, and counts the money that most show', async () => {
    lie(0, (path, _, answer) => {
      const block = answer as { blockID?: string };
      if (path.endsWith('getaccount')) return { ...block, balance: 5_000_000_000_000 };
      return path.startsWith('/walletsolidity/getblock') && block.blockID
        ? { ...block, blockID: block.blockID.slice(0, 16) + 'ab'.repeat(24) }
        : answer;
    });
    const prepared = await prepareReady(adapterOf(3), transfer(7n));
    expect(prepared.refBlockHash).toBe(world.double.solid.id.slice(16, 32));
    expect(prepared.nativeBalanceMinor).toBe(String(1_000n * trx));
  });

  it('sends to all: one that drops the bytes, refuses them or is down costs no payment', async () => {
    const adapter = adapterOf(3);
    const payment = await sign(adapter);
    world.nodes[0]!.set({ down: true });
    lie(1, (path, _, answer) =>
      path.includes('broadcast') ? { code: 'TAPOS_ERROR', message: 'Tapos check error.' } : answer,
    );
    expect(await adapter.send(payment)).toEqual({ outcome: 'sent' });
    expect(world.double.pendingIds).toEqual([payment.hash]);
  });

  it('is not refused by a minority', async () => {
    const adapter = adapterOf(3);
    const payment = await sign(adapter);
    for (const node of world.nodes.slice(1)) node.set({ down: true });
    lie(0, () => ({ code: 'TRANSACTION_EXPIRATION_ERROR', message: 'Transaction expired' }));
    await expect(adapter.send(payment)).rejects.toMatchObject({ name: 'RpcUnavailable' });
  });

  it('is not refused while one may take the bytes later', async () => {
    const adapter = adapterOf(3);
    const payment = await sign(adapter);
    for (const index of [0, 1, 2])
      lie(index, () => (index === 0 ? { code: 'SERVER_BUSY', message: 'Server busy.' } : { code: 'TAPOS_ERROR' }));
    await expect(adapter.send(payment)).rejects.toMatchObject({ name: 'RpcUnavailable' });
    lie(0, () => ({ code: 'TAPOS_ERROR', message: 'Tapos check error.' }));
    expect(await adapter.send(payment)).toMatchObject({ outcome: 'refused' });
  });

  it('leaves one alone that limits us, and goes on with the others', async () => {
    const adapter = adapterOf(3);
    world.nodes[0]!.set({ status: 429 });
    const before = world.nodes[0]!.asked.length;
    for (const _ of [1, 2, 3, 4]) await adapter.head();
    expect(world.nodes[0]!.asked.length - before).toBeLessThanOrEqual(2);
    expect(lines).toEqual([expect.stringContaining('an endpoint of the chain limits us')]);
  });

  it('leaves one alone that says it lacks resources', async () => {
    const adapter = adapterOf(3);
    lie(0, () => ({ Error: 'class java.lang.IllegalAccessException : lack of computing resources' }));
    for (const _ of [1, 2, 3]) await adapter.head();
    expect(lines).toEqual([expect.stringContaining('an endpoint of the chain limits us')]);
  });

  it('does not use an endpoint of another chain', async () => {
    const mainnet = await startTronNodeDouble({ chain: 'tron:0x2b6653dc' });
    try {
      const urls = [mainnet.url, ...world.nodes.slice(0, 2).map(({ url }) => url)];
      const adapter = world.adapter({ urls, logger });
      expect(await adapter.head()).toMatchObject({ hash: world.double.head.id });
      expect(lines).toEqual([expect.stringContaining('ANOTHER CHAIN')]);
      await expect(world.adapter({ urls: [mainnet.url] }).head()).rejects.toThrow(
        'An endpoint serves chain tron:0x2b6653dc, not tron:0xcd8690dc.',
      );
    } finally {
      await mainnet.stop();
    }
  });

  it('says a key as TronGrid wants it, and nowhere else', async () => {
    const seen: unknown[] = [];
    const gate = await startGate(async (_, __, request) => {
      seen.push(request.headers['tron-pro-api-key']);
      return `The key ${request.headers['tron-pro-api-key']} exceeds the frequency limit(15)`;
    });
    const adapter = world.adapter({ urls: [gate.url.replace('//', '//my-secret-key@')], logger });
    const error = await adapter.head().catch((caught: unknown) => caught as Error);
    expect(new Set(seen)).toEqual(new Set(['my-secret-key']));
    expect(lines).toHaveLength(1);
    expect([...lines, String(error), (error as Error).stack].join()).not.toContain('my-secret-key');
    await gate.stop();
  });
});

/** An endpoint that answers as told; with HTTP 404 where it is told nothing. */
async function startGate(
  answer: (path: string, body: string, request: IncomingMessage) => Promise<string | undefined>,
) {
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const said = await answer(request.url!, body, request);
    response.writeHead(said === undefined ? 404 : said.startsWith('{') ? 200 : 403).end(said);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
