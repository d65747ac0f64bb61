import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Address, parseEther, parseUnits } from 'viem';
import { LOCAL_CHAIN, startAnvil } from '../../dev/anvil.ts';
import { freePort } from '../../dev/ports.ts';
import { startGuard } from '../../dev/process.ts';
import { deployToken } from '../../dev/token.ts';

/** A local chain of one test file's own, with the test token on it. */
export interface TestChain {
  /** CAIP-2, `eip155:31337`. */
  chain: string;
  rpcUrl: string;
  usdcAddress: Address;
  pid: number;
  /** Raises an address to 10 ETH and 10,000 USDC, or to the given decimal amounts. */
  fund(address: Address, o?: { eth?: string; usdc?: string }): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a fresh chain on a free port; some 0.5 s. */
export async function startTestChain(): Promise<TestChain> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-chain-'));
  const guard = startGuard();
  const chain = await startAnvil(guard, { port: await freePort(), logFile: join(dir, 'chain.log') });
  const token = await deployToken({ rpcUrl: chain.rpcUrl });
  return {
    chain: LOCAL_CHAIN,
    rpcUrl: chain.rpcUrl,
    usdcAddress: token.address,
    pid: chain.pid,
    fund: (address, { eth = '10', usdc = '10000' } = {}) =>
      token.topUp({ address, wei: parseEther(eth), minorUnits: parseUnits(usdc, 6) }),
    async stop() {
      await chain.stop();
      await guard.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
