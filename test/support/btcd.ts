import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTreasury, fillTreasury, minerAddress } from '../../dev/bitcoin-treasury.ts';
import { type BitcoinNode, btcdPassword, REGTEST_CHAIN, startBtcd } from '../../dev/btcd.ts';
import { btcdBinary } from '../../dev/btcd-binary.ts';
import type { BtcdRpc } from '../../dev/btcd-rpc.ts';
import { type EsploraDoor, startEsploraDoor } from '../../dev/esplora.ts';
import { freePort } from '../../dev/ports.ts';
import { startGuard } from '../../dev/process.ts';

/** A Bitcoin network of one test file's own: a real node, and the door in front of it. Nothing mines by itself. */
export interface TestBitcoin {
  /** CAIP-2 name of regtest. */
  readonly chain: string;
  /** Of the door; the same after `restart`. */
  readonly url: string;
  readonly rpc: BtcdRpc;
  /** The one that runs now. */
  node(): BitcoinNode;
  /** Makes blocks with what waits. @returns their hashes */
  mine(blocks?: number): Promise<string[]>;
  /** Pays addresses, one coin for each amount, and mines that. @param outputs amounts in satoshis @returns its id */
  pay(outputs: readonly { address: string; valueSat: bigint }[]): Promise<string>;
  /**
   * Stops the node and starts it again: the chain is there as before, the mempool is empty.
   * @param o.leastSatPerKvb what it takes nothing below of from then on; default as at first
   */
  restart(o?: { leastSatPerKvb?: number }): Promise<void>;
  stop(): Promise<void>;
}

/** Hands a node what another one's chain has, as peers do: it may have had another branch before. */
export async function copyBlocks({ from, to }: { from: BtcdRpc; to: BtcdRpc }): Promise<void> {
  const known = async (hash: string) =>
    to('getblockheader', hash).then(
      () => true,
      () => false,
    );
  const missing: string[] = [];
  let hash = await from<string>('getbestblockhash');
  while (!(await known(hash))) {
    missing.unshift(await from<string>('getblock', hash, 0));
    hash = (await from<{ previousblockhash: string }>('getblockheader', hash, true)).previousblockhash;
  }
  for (const block of missing) {
    const refusal = await to<string | null>('submitblock', block);
    if (refusal !== null) throw new Error(`A node refuses a block: ${refusal}`);
  }
}

/**
 * Starts a fresh network on free ports, with coins to give away; some 0.5 s, and half a minute at the first build.
 * @param isEmpty without a block beyond the first one, for whoever is to have the blocks of another node
 */
export async function startTestBitcoin({ isEmpty = false }: { isEmpty?: boolean } = {}): Promise<TestBitcoin> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-bitcoin-'));
  const guard = startGuard();
  const options = {
    binary: await btcdBinary(process.env, { onProgress: (message) => console.log(message) }),
    port: await freePort(),
    password: btcdPassword(),
    dir: join(dir, 'node'),
    minerAddress,
    logFile: join(dir, 'node.log'),
  };
  let node = await startBtcd(guard, options);
  if (!isEmpty) await fillTreasury(node);
  const { rpc } = node;
  const treasury = createTreasury(rpc);
  const door: EsploraDoor = await startEsploraDoor({ rpc });
  return {
    chain: REGTEST_CHAIN,
    url: door.url,
    rpc,
    node: () => node,
    mine: (blocks) => node.mine(blocks),
    async pay(outputs) {
      const txid = await treasury.pay(outputs);
      await node.mine();
      return txid;
    },
    async restart(o) {
      await node.stop();
      node = await startBtcd(guard, { ...options, ...o });
    },
    async stop() {
      await door.stop();
      await node.stop();
      await guard.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
