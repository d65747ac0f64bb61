import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createTestClient, http, publicActions } from 'viem';
import { anvil as anvilChain } from 'viem/chains';
import { startSaving, stateFiles } from './anvil-state.ts';
import { LOOPBACK } from './ports.ts';
import { type Guard, startProcess, waitUntilReady } from './process.ts';

const START_TIMEOUT_MS = 60_000;
/** States of old blocks kept in memory; older blocks answer for their transactions and receipts only. */
const STATES_IN_MEMORY = 256;

/** CAIP-2 name of the local chain. */
export const LOCAL_CHAIN = 'eip155:31337';
const LOCAL_CHAIN_ID = 31_337;

/** A running local chain. A transaction is mined at once, in a block of its own. */
export interface LocalChain {
  rpcUrl: string;
  exited: Promise<string>;
  pid: number;
  stop(): Promise<void>;
}

/**
 * Starts anvil straight from the package for this platform. With `dir` the chain goes on where it was: its state is
 * saved there every two seconds while it changes and when it stops.
 */
export async function startAnvil(
  guard: Guard,
  o: { port: number; dir?: string; logFile: string },
): Promise<LocalChain> {
  const files = o.dir === undefined ? undefined : stateFiles(o.dir);
  const child = await startProcess(guard, {
    name: 'the local chain',
    command: anvilProgram(),
    args: [
      ...['--host', LOOPBACK, '--port', String(o.port), '--chain-id', String(LOCAL_CHAIN_ID), '--quiet'],
      ...['--prune-history', String(STATES_IN_MEMORY)],
      ...(files?.newest === undefined ? [] : ['--load-state', files.newest]),
      // Written when the chain is told to stop, also by the guard after our own death.
      ...(files === undefined ? [] : ['--dump-state', files.atExit]),
    ],
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
    logFile: o.logFile,
    stopTimeoutMs: 20_000,
  });
  const rpcUrl = `http://${LOOPBACK}:${o.port}`;
  const client = createTestClient({ mode: 'anvil', chain: anvilChain, transport: http(rpcUrl) }).extend(publicActions);
  try {
    await waitUntilReady(child, { timeoutMs: START_TIMEOUT_MS, check: () => client.getChainId() });
  } catch (error) {
    await child.stop();
    throw error;
  }
  const head = () => client.getBlockNumber({ cacheTime: 0 });
  const saver = files && startSaving({ file: files.saved, head, dump: () => client.dumpState() });
  return {
    rpcUrl,
    exited: child.exited,
    pid: child.pid,
    async stop() {
      await saver?.stop();
      await child.stop();
    },
  };
}

/** The program in the optional package for this platform; no install script is needed. */
function anvilProgram(): string {
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const name = `@foundry-rs/anvil-${process.platform}-${arch}`;
  const require = createRequire(import.meta.url);
  try {
    const program = join(dirname(require.resolve(`${name}/package.json`)), 'bin', 'anvil');
    if (existsSync(program)) return program;
  } catch {
    // Falls through to the sentence below.
  }
  throw new Error(`There is no local chain for this platform (${name}).`);
}
