import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Hex, parseEther } from 'viem';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPrepare } from '../../activities/prepare.ts';
import type { PrepareResult, Transfer } from '../../shared/chain/adapter.ts';
import type { EvmPrepared } from '../../shared/chain/evm/prepared.ts';
import { type ChainWorld, createChainWorld, type TestWallet } from '../support/chain-world.ts';
import { patiently } from '../support/patience.ts';

const recipient = '0x00000000000000000000000000000000000000Aa';
const word = (hex: string) => hex.padEnd(64, '0');
const answerBalance = `5b7f${word('80')}60005260206000f3`;

/** Runtime code of contracts that matter here, written by hand. */
const code: Record<string, Hex> = {
  // PUSH1 0, PUSH1 0, REVERT
  reverts: '0x60006000fd',
  // Lays out Error("no thanks") in memory, and reverts with it.
  revertsWithReason: `0x7f${word('08c379a0')}600052602060045260096024527f${word('6e6f207468616e6b73')}60445260646000fd`,
  // balanceOf: 2^255; any other call: nothing.
  returnsNothing: `0x60003560e01c6370a082311460105700${answerBalance}`,
  // balanceOf: 2^255; any other call: 32 zero bytes.
  returnsFalse: `0x60003560e01c6370a082311460145760206000f3${answerBalance}`,
};

describe('preparing a transfer', () => {
  let world: ChainWorld;
  let rich: TestWallet;
  beforeAll(async () => {
    world = await createChainWorld();
    rich = await world.wallet();
  });
  afterAll(() => world.close());

  let placed = 0xc0de0000;
  const place = async (runtime: Hex | undefined): Promise<Hex> => {
    placed += 1;
    const address: Hex = `0x${placed.toString(16).padStart(40, '0')}`;
    await world.node.setCode({ address, bytecode: runtime! });
    return address;
  };
  const prepare = (o: Partial<Transfer> = {}): Promise<PrepareResult<EvmPrepared>> =>
    world.adapter().prepare({ from: rich.account.address, to: recipient, token: world.eth, amountMinor: 1n, ...o });

  it('says what a native transfer may cost, and which nonce the chain would take', async () => {
    const ready = await prepare();
    expect(ready).toMatchObject({ outcome: 'ready', minedCount: 0, gas: '21000' });
    if (ready.outcome !== 'ready') return;
    expect(BigInt(ready.maxFeeMinor)).toBe(21_000n * BigInt(ready.maxFeePerGasWei));
    expect(BigInt(ready.maxPriorityFeePerGasWei)).toBeLessThanOrEqual(BigInt(ready.maxFeePerGasWei));
  });

  it('estimates the gas of a token transfer instead of guessing', async () => {
    const ready = await prepare({ token: world.usdc, amountMinor: 1_000_000n });
    if (ready.outcome !== 'ready') throw new Error(ready.message);
    const estimate = await world.node.estimateGas({
      account: rich.account.address,
      to: world.local.usdcAddress,
      data: `0xa9059cbb${recipient.slice(2).toLowerCase().padStart(64, '0')}${(1_000_000).toString(16).padStart(64, '0')}`,
    });
    expect(BigInt(ready.gas)).toBe(estimate + (estimate * 25n) / 100n);
  });

  it('reads the payment from its row, with 18 decimals exact (F7)', async () => {
    const row = await world.payment({
      wallet: rich,
      to: recipient,
      token: world.eth,
      amountMinor: 1_000_000_000_000_000_001n,
    });
    const chains = new Map([[world.local.chain, world.adapter()]]);
    expect(await createPrepare({ pool: world.pool, chains, ...patiently })(row.id)).toMatchObject({ outcome: 'ready' });
    const poor = await world.wallet({ eth: '1' });
    const short = await world.payment({
      wallet: poor,
      to: recipient,
      token: world.eth,
      amountMinor: 1_000_000_000_000_000_001n,
    });
    expect(await createPrepare({ pool: world.pool, chains, ...patiently })(short.id)).toEqual({
      outcome: 'failed',
      code: 'insufficient_funds',
      message: 'The wallet holds 1 ETH, less than the 1.000000000000000001 ETH to be sent.',
      details: { token: 'ETH', balance: '1', required: '1.000000000000000001' },
      atBlock: expect.any(Number),
    });
  });

  it('refuses what the wallet does not hold, in figures: token, coin, and the fee', async () => {
    expect(await prepare({ token: world.usdc, amountMinor: 10_000_000_001n })).toMatchObject({
      code: 'insufficient_funds',
      message: 'The wallet holds 10000 USDC, less than the 10000.000001 USDC to be sent.',
    });
    const all = await prepare({ amountMinor: parseEther('10') });
    expect(all).toMatchObject({ code: 'insufficient_funds', details: { token: 'ETH', balance: '10' } });
    expect(all).toMatchObject({
      message: expect.stringMatching(
        /^The wallet holds 10 ETH, but 10 and a fee of up to 0\.\d+ ETH need 10\.\d+ ETH\.$/,
      ),
    });
    const penniless = await world.wallet({ eth: '0' });
    await world.node.setBalance({ address: penniless.account.address, value: 0n });
    expect(await prepare({ from: penniless.account.address, token: world.usdc, amountMinor: 1n })).toMatchObject({
      code: 'insufficient_funds',
      details: { token: 'ETH', balance: '0' },
    });
  });

  it('refuses a recipient that would revert, with its reason in words', async () => {
    expect(await prepare({ to: await place(code.reverts) })).toMatchObject({ code: 'simulation_failed' });
    expect(await prepare({ to: await place(code.revertsWithReason) })).toMatchObject({
      code: 'simulation_failed',
      message: 'The transfer of ETH would fail on the chain: no thanks.',
    });
    expect(await prepare({ to: '0x0000000000000000000000000000000000000000', token: world.usdc })).toMatchObject({
      code: 'simulation_failed',
      details: { reason: expect.stringContaining('zero address') },
    });
  });

  it('takes a token that returns nothing, refuses one that returns false, and one that is not there', async () => {
    const token = async (runtime: Hex | undefined) => ({ symbol: 'ODD', decimals: 6, asset: await place(runtime) });
    expect(await prepare({ token: await token(code.returnsNothing) })).toMatchObject({ outcome: 'ready' });
    expect(await prepare({ token: await token(code.returnsFalse) })).toMatchObject({
      code: 'simulation_failed',
      message: 'The transfer of ODD would fail on the chain: the token answers false.',
    });
    expect(await prepare({ token: { symbol: 'ODD', decimals: 6, asset: recipient } })).toMatchObject({
      code: 'simulation_failed',
      details: { reason: `there is no token at ${recipient}` },
    });
  });

  it('waits while fees are above the ceiling', async () => {
    const stingy = world.adapter({ maxFeePerGasCeilingWei: 1000n });
    const transfer = { from: rich.account.address, to: recipient, token: world.eth, amountMinor: 1n };
    await expect(stingy.prepare(transfer)).rejects.toMatchObject({
      name: 'FeeAboveCeiling',
      message: expect.stringContaining('more than the ceiling of 1000 wei'),
    });
  });

  it('asks the next endpoint when one is dead, and never shows the credentials in an address', async () => {
    const dead = 'http://127.0.0.1:1/v3/secret-key?token=secret-token';
    const transfer = { from: rich.account.address, to: recipient, token: world.eth, amountMinor: 1n };
    expect(await world.adapter({ urls: [dead, world.local.rpcUrl] }).prepare(transfer)).toMatchObject({
      outcome: 'ready',
    });
    const server = createServer((_, response) => {
      response.writeHead(401).end(`no access to http://user:secret@host/v3/secret-key`);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const locked = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v3/secret-key`;
    for (const urls of [[dead], [dead, dead], [locked]]) {
      const error = await world
        .adapter({ urls })
        .prepare(transfer)
        .catch((caught: Error) => caught);
      expect(error).toMatchObject({ name: 'RpcUnavailable' });
      const shown =
        error instanceof Error ? `${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.cause)}` : '';
      expect(shown).not.toContain('secret');
    }
    server.close();
  });
});
