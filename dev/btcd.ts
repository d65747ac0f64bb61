import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createBlockFile } from './btcd-blocks.ts';
import { type BtcdAccess, type BtcdRpc, createBtcdRpc } from './btcd-rpc.ts';
import { LOOPBACK } from './ports.ts';
import { type Guard, startProcess, waitUntilReady } from './process.ts';

const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 20_000;
/** More than our own programs ask at a time; btcd's defaults of 10 and 20 turn some of them away. */
const CLIENTS_MAX = 500;

/** CAIP-2 name of Bitcoin's regression test network: 32 digits of its first block's hash (BIP-122). */
export const REGTEST_CHAIN = 'bip122:0f9188f13cb7b2c71f2a335e3a4fc328';

/** A running Bitcoin node of a network of its own: it has no peers, and makes blocks when it is told to. */
export interface BitcoinNode {
  access: BtcdAccess;
  rpc: BtcdRpc;
  /** Makes blocks with what waits in the mempool, and keeps them. @returns their hashes */
  mine(blocks?: number): Promise<string[]>;
  /** Keeps blocks that somebody else has had made. */
  keep(): Promise<void>;
  exited: Promise<string>;
  pid: number;
  stop(): Promise<void>;
}

/** Credentials for the programs of one start; the node listens on this machine only. */
export const btcdPassword = (): string => randomBytes(16).toString('hex');

/**
 * Starts btcd on regtest. With the same `dir` it goes on where it was, whatever ended it; what waited in its mempool is
 * forgotten, as by every btcd. Fees below the least are refused and replacements (BIP-125) taken, as
 * Bitcoin Core does both by default.
 * @param o.dir holds the blocks
 * @param o.leastSatPerKvb what it takes nothing below of, in satoshis for a thousand virtual bytes; default 1,000
 * @param o.minerAddress is paid for blocks
 */
export async function startBtcd(
  guard: Guard,
  o: {
    binary: string;
    port: number;
    password: string;
    dir: string;
    minerAddress: string;
    logFile: string;
    leastSatPerKvb?: number | undefined;
  },
): Promise<BitcoinNode> {
  mkdirSync(o.dir, { recursive: true });
  const access = { url: `http://${LOOPBACK}:${o.port}`, user: 'purser', password: o.password };
  const configFile = join(o.dir, 'btcd.conf');
  // In a file, because everybody on a machine sees the arguments of programs.
  writeFileSync(configFile, `[Application Options]\nrpcuser=${access.user}\nrpcpass=${access.password}\n`, {
    mode: 0o600,
  });
  const child = await startProcess(guard, {
    name: 'the Bitcoin node',
    command: o.binary,
    args: [
      ...['--regtest', '--txindex', '--addrindex', '--nocfilters', '--notls', '--nolisten', '--nodnsseed'],
      ...[`--configfile=${configFile}`, `--datadir=${join(o.dir, 'data')}`, `--logdir=${join(o.dir, 'logs')}`],
      ...[`--rpclisten=${LOOPBACK}:${o.port}`, `--miningaddr=${o.minerAddress}`, '--debuglevel=warn'],
      ...[`--rpcmaxclients=${CLIENTS_MAX}`, `--rpcmaxconcurrentreqs=${CLIENTS_MAX}`],
      ...(o.leastSatPerKvb === undefined ? [] : [`--minrelaytxfee=${(o.leastSatPerKvb / 1e8).toFixed(8)}`]),
      ...['--norelaypriority', '--limitfreerelay=0', '--rejectnonstd'],
    ],
    env: { PATH: process.env.PATH, HOME: o.dir },
    logFile: o.logFile,
    stopTimeoutMs: STOP_TIMEOUT_MS,
  });
  const rpc = createBtcdRpc(access);
  const blocks = createBlockFile({ file: join(o.dir, 'blocks'), rpc });
  try {
    await waitUntilReady(child, { timeoutMs: START_TIMEOUT_MS, check: () => rpc('getblockcount') });
    await blocks.restore();
  } catch (error) {
    await child.stop();
    throw error;
  }
  return {
    access,
    rpc,
    async mine(count = 1) {
      const hashes = await rpc<string[]>('generate', count);
      await blocks.save();
      return hashes;
    },
    keep: blocks.save,
    exited: child.exited,
    pid: child.pid,
    async stop() {
      // Also those that somebody else has had made; a node that is dead has none.
      if (child.exit() === undefined) await blocks.save().catch(() => {});
      await child.stop();
    },
  };
}
