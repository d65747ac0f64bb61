import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseEther } from 'viem';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createReadBalances } from '../../activities/read-balances.ts';
import { createEvmAdapter } from '../../shared/chain/evm/create-evm-adapter.ts';
import { createRegistry } from '../../shared/chain/registry.ts';
import { type ChainWorld, createChainWorld, type TestWallet } from '../support/chain-world.ts';

const recipient = '0x00000000000000000000000000000000000000Aa';

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params?: readonly unknown[];
}

describe('balances as of a block', () => {
  let world: ChainWorld;
  let wallet: TestWallet;
  const servers: Server[] = [];
  beforeAll(async () => {
    world = await createChainWorld();
    wallet = await world.wallet({ eth: '3', usdc: '40' });
  });
  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections();
      server.close();
    }
  });
  afterAll(() => world.close());

  /** A node in front of the real one: `answer` may speak first. */
  async function nodeThat(answer: (request: Request) => unknown): Promise<string> {
    const server = createServer(async (incoming, response) => {
      const request = JSON.parse(await read(incoming)) as Request | Request[];
      const answers = await Promise.all(
        [request].flat().map(async (each) => {
          const given = await answer(each);
          if (given !== undefined) return { jsonrpc: '2.0', id: each.id, ...given };
          const real = await fetch(world.local.rpcUrl, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify(each),
          });
          return real.json();
        }),
      );
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(Array.isArray(request) ? answers : answers[0]));
    }).listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  const transfer = () => ({ from: wallet.account.address, to: recipient, token: world.usdc, amountMinor: 1_000_000n });

  it('reads every token of the chain, and says as of which block', async () => {
    const block = Number(await world.node.getBlockNumber());
    expect(await world.adapter().balances({ owner: wallet.account.address })).toEqual({
      atBlock: block,
      data: [
        { token: world.eth, amountMinor: parseEther('3') },
        { token: world.usdc, amountMinor: 40_000_000n },
      ],
    });
  });

  it('pins what it reads to the block that it names, however the chain moves meanwhile', async () => {
    const before = Number(await world.node.getBlockNumber());
    const mover = await world.wallet({ eth: '5', usdc: '7' });
    const funded = Number(await world.node.getBlockNumber());
    let isMoved = false;
    // Between the number of the block and the balances, the chain goes on.
    const url = await nodeThat(async ({ method }) => {
      if (method === 'eth_blockNumber' || method === 'eth_chainId' || isMoved) return undefined;
      isMoved = true;
      await world.node.mine({ blocks: 1 });
      await world.node.setBalance({ address: mover.account.address, value: 1n });
      await world.node.mine({ blocks: 1 });
      return undefined;
    });
    const read = await world.adapter({ urls: [url] }).balances({ owner: mover.account.address });
    expect(read.atBlock).toBe(funded);
    expect(read.data).toEqual([
      { token: world.eth, amountMinor: parseEther('5') },
      { token: world.usdc, amountMinor: 7_000_000n },
    ]);
    expect(funded).toBeGreaterThan(before);
    const after = await world.adapter().balances({ owner: mover.account.address });
    expect(after).toMatchObject({ atBlock: funded + 2, data: [{ amountMinor: 1n }, { amountMinor: 7_000_000n }] });
  });

  it('prepares with the balances of the block that it names, in two round trips', async () => {
    const asked: Request[] = [];
    const url = await nodeThat((request) => {
      asked.push(request);
      return undefined;
    });
    const block = await world.node.getBlockNumber();
    expect(await world.adapter({ urls: [url] }).prepare(transfer())).toMatchObject({
      outcome: 'ready',
      atBlock: Number(block),
      balanceMinor: '40000000',
      nativeBalanceMinor: parseEther('3').toString(),
    });
    expect(asked[0]?.method).toBe('eth_blockNumber');
    const pinned = asked.filter(({ params }) => params?.[1] === `0x${block.toString(16)}`).map(({ method }) => method);
    expect(pinned.sort()).toEqual(['eth_call', 'eth_getBalance']);
    const native = await world.adapter().prepare({ ...transfer(), token: world.eth });
    expect(native).toMatchObject({ balanceMinor: parseEther('3').toString() });
  });

  it.each([
    [-32000, 'header not found'],
    [-32001, 'block not found'],
    [-32602, 'Unknown block number'],
    [-32000, 'missing trie node 0x00 (path ) state is not available'],
  ])('asks again where a node lags behind (%i %s), and never calls the payment impossible', async (code, message) => {
    const url = await nodeThat(({ params }) =>
      typeof params?.[1] === 'string' && params[1].startsWith('0x') ? { error: { code, message } } : undefined,
    );
    const adapter = world.adapter({ urls: [url] });
    await expect(adapter.prepare(transfer())).rejects.toMatchObject({ name: 'RpcUnavailable' });
    await expect(adapter.balances({ owner: wallet.account.address })).rejects.toMatchObject({ name: 'RpcUnavailable' });
  });

  it('names the token that cannot be read, beside those that can', async () => {
    const registry = createRegistry({
      environment: 'sandbox',
      enabled: [world.local.chain],
      extraTokens: [{ chain: world.local.chain, symbol: 'GONE', decimals: 6, asset: recipient }],
    });
    const adapter = createEvmAdapter({ chain: registry.chains[0]!, urls: [world.local.rpcUrl] });
    const { data } = await adapter.balances({ owner: wallet.account.address });
    expect(data).toMatchObject([
      { token: { symbol: 'ETH' }, amountMinor: parseEther('3') },
      { token: { symbol: 'GONE' }, error: `there is no token at ${recipient}` },
    ]);
  });

  it('hides no chain behind one that is dead, that hangs, or that is not served', async () => {
    const hanging = await nodeThat(() => new Promise(() => {}));
    const dead = 'http://127.0.0.1:1/secret-key';
    const readBalances = createReadBalances({
      chains: new Map([
        ['eip155:1', world.adapter({ urls: [dead] })],
        ['eip155:2', world.adapter({ urls: [hanging] })],
        [world.local.chain, world.adapter()],
      ]),
    });
    const startedAt = Date.now();
    const found = await readBalances({
      owner: wallet.account.address,
      chains: ['eip155:1', 'eip155:2', 'eip155:3', world.local.chain],
    });
    expect(Date.now() - startedAt).toBeLessThan(20_000);
    expect(found).toEqual([
      { chain: 'eip155:1', error: expect.stringContaining('could be reached') },
      { chain: 'eip155:2', error: 'The chain did not answer within 3 s.' },
      { chain: 'eip155:3', error: 'This chain is not served by the worker that was asked.' },
      {
        chain: world.local.chain,
        atBlock: expect.any(Number),
        data: [
          { token: 'ETH', amountMinor: parseEther('3').toString() },
          { token: 'USDC', amountMinor: '40000000' },
        ],
      },
    ]);
    expect(JSON.stringify(found)).not.toContain('secret');
  });
});

async function read(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
