import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BitcoinChain, startBitcoinChain } from '../../dev/bitcoin-chain.ts';
import { REGTEST_CHAIN } from '../../dev/btcd.ts';
import { btcdBinary } from '../../dev/btcd-binary.ts';
import { startFaucet } from '../../dev/faucet.ts';
import { freePort } from '../../dev/ports.ts';
import { type Guard, startGuard } from '../../dev/process.ts';
import { supervise } from '../../dev/supervise.ts';
import type { LocalToken } from '../../dev/token.ts';
import { payee } from '../support/bitcoin-payees.ts';
import { until } from '../support/chain-world.ts';

describe('the local Bitcoin network', () => {
  let dir: string;
  let guard: Guard;
  let binary: string;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'purser-dev-bitcoin-'));
    guard = startGuard();
    binary = await btcdBinary(process.env, { onProgress: (message) => console.log(message) });
  });
  afterAll(async () => {
    await guard.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  /** Also how to kill its node. */
  async function start(): Promise<BitcoinChain & { kill: () => void }> {
    let pid = 0;
    const chain = await startBitcoinChain(guard, {
      ...{ binary, dir: join(dir, 'chain'), port: await freePort(), logFile: join(dir, 'log') },
      keep: (startNode) =>
        supervise(
          async () => {
            const node = await startNode();
            pid = node.pid;
            return node;
          },
          { name: 'The Bitcoin node', report: () => {}, signal: new AbortController().signal },
        ),
    });
    return Object.assign(chain, { kill: () => process.kill(pid, 'SIGKILL') });
  }
  async function ask<T>({ url }: { url: string }, path: string): Promise<T> {
    const answer = await fetch(`${url}${path}`);
    return (answer.headers.get('content-type') === 'application/json' ? answer.json() : answer.text()) as Promise<T>;
  }
  const heldSat = async (chain: { url: string }, address: string) => {
    type Stats = { chain_stats: { funded_txo_sum: number; spent_txo_sum: number } };
    const { chain_stats: mined } = await ask<Stats>(chain, `/address/${address}`);
    return mined.funded_txo_sum - mined.spent_txo_sum;
  };

  it('gives a wallet 1 BTC, once, and goes on where it was after a stop', async () => {
    const address = payee('p2wpkh');
    const first = await start();
    await first.fund(address);
    await first.fund(address);
    expect(await heldSat(first, address)).toBe(100_000_000);
    const head = await ask<string>(first, '/blocks/tip/hash');
    await first.stop();
    // Half a line, as a machine leaves it that dies while it writes.
    const blocks = join(dir, 'chain', 'blocks');
    const before = readFileSync(blocks, 'utf8');
    appendFileSync(blocks, '00000020abcd');

    const second = await start();
    expect(await ask(second, '/blocks/tip/hash')).toBe(head);
    expect(readFileSync(blocks, 'utf8')).toBe(before);
    expect(await heldSat(second, address)).toBe(100_000_000);
    const other = payee('p2tr');
    await second.fund(other);
    expect(await heldSat(second, other)).toBe(100_000_000);
    await second.stop();
  });

  it('is there again with all its blocks when its node was killed', async () => {
    const chain = await start();
    const address = payee('p2wpkh');
    await chain.fund(address);
    const head = await ask<string>(chain, '/blocks/tip/hash');
    chain.kill();
    await until(
      () => ask<string>(chain, '/blocks/tip/hash').catch(() => ''),
      (seen) => seen === head,
    );
    expect(await heldSat(chain, address)).toBe(100_000_000);
    await chain.fund(payee('p2wpkh'));
    await chain.stop();
  });

  it('answers as the Esplora API documents it', async () => {
    const chain = await start();
    const address = payee('p2wpkh');
    await chain.fund(address);
    const height = Number(await ask(chain, '/blocks/tip/height'));
    const hash = await ask<string>(chain, '/blocks/tip/hash');
    expect(await ask(chain, `/block-height/${height}`)).toBe(hash);
    expect((await fetch(`${chain.url}/block-height/${height + 1}`)).status).toBe(404);
    const txids = await ask<string[]>(chain, `/block/${hash}/txids`);
    expect(txids).toHaveLength(2);
    expect(await ask(chain, `/block/${hash}`)).toMatchObject({
      ...{ id: hash, height, tx_count: 2, previousblockhash: await ask(chain, `/block-height/${height - 1}`) },
    });
    const status = { confirmed: true, block_height: height, block_hash: hash, block_time: expect.any(Number) };
    const coin = { txid: txids[1], vout: 0, value: 100_000_000, status };
    expect(await ask(chain, `/address/${address}/utxo`)).toEqual([coin]);
    const transaction = await ask<{ fee: number; vin: { prevout: { value: number } }[]; vout: { value: number }[] }>(
      chain,
      `/tx/${txids[1]}`,
    );
    expect(transaction).toMatchObject({ txid: txids[1], version: 2, status });
    expect(transaction.vin[0]!.prevout.value).toBe(
      transaction.vout.reduce((sum, { value }) => sum + value, 0) + transaction.fee,
    );
    expect(await ask(chain, `/address/${address}/txs/chain`)).toEqual([transaction]);
    expect(await ask(chain, `/address/${address}/txs/chain/${txids[1]}`)).toEqual([]);
    expect(await ask(chain, `/address/${address}/txs/mempool`)).toEqual([]);
    expect(await ask(chain, `/tx/${txids[1]}/outspend/0`)).toEqual({ spent: false });
    expect((await fetch(`${chain.url}/tx/${'ab'.repeat(32)}`)).status).toBe(404);
    const refused = await fetch(`${chain.url}/tx`, { method: 'POST', body: '0200' });
    expect([refused.status, await refused.text()]).toEqual([
      400,
      'sendrawtransaction RPC error: {"code":-22,"message":"TX decode failed: unexpected EOF"}',
    ]);
    await chain.stop();
  });

  it('is paid from by the faucet, which leaves the other chain alone', async () => {
    const funded: string[] = [];
    const token: LocalToken = {
      address: '0x00000000000000000000000000000000000000bb',
      async topUp({ address }) {
        funded.push(address);
      },
    };
    const bitcoin = {
      async fund(address: string) {
        funded.push(`bitcoin ${address}`);
      },
    };
    const ask = async (faucet: { url: string }, body: object) =>
      (await fetch(`${faucet.url}/fund`, { method: 'POST', body: JSON.stringify(body) })).status;
    const [both, one] = [await startFaucet(token, bitcoin), await startFaucet(token)];
    const [address, evmAddress] = [payee('p2wpkh'), '0x00000000000000000000000000000000000000aa'];
    expect(await ask(both, { address, chain: REGTEST_CHAIN })).toBe(200);
    expect(await ask(both, { address: evmAddress, chain: 'eip155:31337' })).toBe(200);
    expect(await ask(one, { address: evmAddress })).toBe(200);
    expect(await ask(one, { address, chain: REGTEST_CHAIN })).toBe(400);
    expect(await ask(both, { address, chain: 'eip155:31337' })).toBe(400);
    expect(funded).toEqual([`bitcoin ${address}`, evmAddress, evmAddress]);
    await Promise.all([both.stop(), one.stop()]);
  });
});
