import { setTimeout as delay } from 'node:timers/promises';
import { createTreasury, fillTreasury, minerAddress } from './bitcoin-treasury.ts';
import { type BitcoinNode, btcdPassword, REGTEST_CHAIN, startBtcd } from './btcd.ts';
import { startEsploraDoor } from './esplora.ts';
import { createEsploraIndex } from './esplora-index.ts';
import { freePort } from './ports.ts';
import type { Guard } from './process.ts';
import type { Supervised } from './supervise.ts';

/** What a new wallet is raised to, in satoshis. */
const FUNDS_SAT = 100_000_000n;
/** Nodes pass on no smaller output, and nobody needs one. */
const LEAST_SAT = 1_000n;
/** How often it is looked whether a payment waits for a block. */
const LOOK_MS = 250;

/** A Bitcoin network of this machine's own, for wallets to pay on. */
export interface BitcoinChain {
  /** Of its Esplora-style API. */
  url: string;
  /** Raises an address to 1 BTC; resolves when mined. A repeat gives nothing twice. */
  fund(address: string): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts the node, the door in front of it and a miner, who makes a block as soon as a payment waits: it is mined
 * within half a second.
 * @param keep starts the node again whenever it dies
 */
export async function startBitcoinChain(
  guard: Guard,
  o: {
    binary: string;
    dir: string;
    /** Where the door listens. */
    port: number;
    logFile: string;
    keep: (start: () => Promise<BitcoinNode>) => Promise<Supervised<BitcoinNode>>;
  },
): Promise<BitcoinChain> {
  const { binary, dir, logFile } = o;
  const options = { binary, dir, logFile, minerAddress, password: btcdPassword(), port: await freePort() };
  const part = await o.keep(async () => {
    const node = await startBtcd(guard, options);
    await fillTreasury(node);
    return node;
  });
  // The same after each start: port and password stay.
  const { rpc } = part.current();
  const [treasury, index] = [createTreasury(rpc), createEsploraIndex(rpc)];
  const door = await startEsploraDoor({ rpc, port: o.port });
  const ending = new AbortController();
  const mining = mineWhatWaits(part, ending.signal);

  return {
    url: door.url,
    async fund(address) {
      const { chain_stats: mined, mempool_stats: waiting } = await index.addressStats(address);
      const held = [mined, waiting].reduce((sum, each) => sum + each.funded_txo_sum - each.spent_txo_sum, 0);
      const missing = FUNDS_SAT - BigInt(held);
      if (missing < LEAST_SAT) return;
      await treasury.pay([{ address, valueSat: missing }]);
      await part.current().mine();
    },
    async stop() {
      ending.abort();
      await mining;
      await door.stop();
      await part.stop();
    },
  };
}

/** What the services are told of chains: which they serve, and where a local Bitcoin network answers. */
export function chainsEnv({
  chains,
  bitcoin,
}: {
  /** CAIP-2 ids, separated by commas, without that network. */
  chains: string;
  bitcoin: Pick<BitcoinChain, 'url'> | undefined;
}): NodeJS.ProcessEnv {
  if (!bitcoin) return { PURSER_CHAINS: chains };
  return {
    PURSER_CHAINS: chains.includes(REGTEST_CHAIN) ? chains : `${chains},${REGTEST_CHAIN}`,
    [`PURSER_RPC_${REGTEST_CHAIN.toUpperCase().replaceAll(/\W/g, '_')}`]: bitcoin.url,
  };
}

/** Until `signal` ends it. A node that is just starting again is asked again. */
async function mineWhatWaits(part: Supervised<BitcoinNode>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const node = part.current();
    await node
      .rpc<{ size: number }>('getmempoolinfo')
      .then(({ size }) => (size > 0 ? node.mine() : undefined))
      .catch(() => {});
    await delay(LOOK_MS, undefined, { signal }).catch(() => {});
  }
}
