import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTestClient, http, publicActions } from 'viem';
import { anvil } from 'viem/chains';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startAnvil } from '../../dev/anvil.ts';
import { freePort } from '../../dev/ports.ts';
import { type Guard, startGuard } from '../../dev/process.ts';
import { deployToken } from '../../dev/token.ts';

describe('the local chain that keeps its state', () => {
  let dir: string;
  let guard: Guard;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'purser-dev-chain-'));
    guard = startGuard();
  });
  afterAll(async () => {
    await guard.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const start = async () => {
    const chain = await startAnvil(guard, {
      port: await freePort(),
      dir: join(dir, 'chain'),
      logFile: join(dir, 'log'),
    });
    const client = createTestClient({ mode: 'anvil', chain: anvil, transport: http(chain.rpcUrl) }).extend(
      publicActions,
    );
    return { ...chain, head: () => client.getBlockNumber({ cacheTime: 0 }), client };
  };
  const address = '0x00000000000000000000000000000000000000aa';

  it('goes on from where it was after a stop, transactions and receipts included', async () => {
    const first = await start();
    const token = await deployToken({ rpcUrl: first.rpcUrl });
    await token.topUp({ address, wei: 5n, minorUnits: 7n });
    const head = await first.head();
    const { hash, transactions } = await first.client.getBlock({ blockNumber: head });
    await first.stop();

    const second = await start();
    expect(await second.head()).toBe(head);
    expect((await second.client.getBlock({ blockNumber: head })).hash).toBe(hash);
    const receipt = await second.client.getTransactionReceipt({ hash: transactions[0]! });
    expect(receipt.status).toBe('success');
    expect(await second.client.getBalance({ address })).toBe(5n);
    // The token is found, not deployed again.
    expect((await deployToken({ rpcUrl: second.rpcUrl })).address).toBe(token.address);
    expect(await second.head()).toBe(head);
    await second.stop();
  });

  it('loses at most its last seconds when it is killed, and survives a half-written state', async () => {
    const first = await start();
    const before = await first.head();
    await first.client.mine({ blocks: 3 });
    await vi.waitFor(
      async () => {
        const state = JSON.parse(readFileSync(join(dir, 'chain', 'state.json'), 'utf8')) as {
          best_block_number: string;
        };
        expect(BigInt(state.best_block_number)).toBe(before + 3n);
      },
      { timeout: 60_000, interval: 100 },
    );
    process.kill(first.pid, 'SIGKILL');
    await first.exited;
    await first.stop();
    writeFileSync(join(dir, 'chain', 'state-at-exit.json'), '{"block":{"numb');

    const second = await start();
    expect(await second.head()).toBe(before + 3n);
    await second.stop();
  });
});
