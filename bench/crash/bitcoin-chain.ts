import { setTimeout as delay } from 'node:timers/promises';
import { createBitcoinLedger, type LedgerCoin, type LedgerTransaction } from '../../test/support/bitcoin-ledger.ts';
import type { OwnBitcoin } from '../../test/support/own-bitcoin.ts';
import { bitcoinConfirmations, maxBitcoinReorgDepth } from './bitcoin-plan.ts';

/** A node that was killed needs a moment. */
const knowsWithinMs = 180_000;
const lookMs = 50;

/** The Bitcoin chain of the run, counted block by block: the truth that everything else is held against. */
export interface CrashBitcoin {
  /** A block every so often, also without transactions. */
  setBlockTime(ms: number): void;
  /** Whether blocks take transactions; without, these go on waiting. */
  setRoom(isThere: boolean): void;
  reorg(depth: number): Promise<void>;
  /** Gives a wallet coins of these sizes, in satoshis. */
  fund(address: string, coinsSat: readonly number[]): Promise<void>;
  /** Resolves when every block that is there now lies below the reach of a reorganisation. */
  passFinal(): Promise<void>;
  /** Of blocks that no reorganisation reaches. */
  wallet(address: string): Promise<BitcoinWallet>;
  stop(): Promise<void>;
}

export interface BitcoinWallet {
  readonly sent: readonly LedgerTransaction[];
  readonly coins: readonly LedgerCoin[];
}

/** Takes over the mining of the stack's Bitcoin chain. */
export function takeOverBitcoin(bitcoin: OwnBitcoin): CrashBitcoin {
  const ledger = createBitcoinLedger(bitcoin.rpc);
  let [blockMs, hasRoom, stopped] = [200, true, false];
  /** Height of the newest block that anybody may have seen: one that was made just before a kill is lost. */
  let highest = 0;

  // A reorganisation beside a block that is being made would leave more than it should.
  let last: Promise<unknown> = Promise.resolve();
  function alone<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(() => insistOn(work));
    last = result.catch(() => {});
    return result;
  }
  const mining = (async () => {
    while (!stopped) {
      await alone(async () => {
        highest = Math.max(highest, (await bitcoin.height()) + 1);
        await (hasRoom ? bitcoin.mine() : bitcoin.mineEmpty());
      });
      await delay(blockMs);
    }
  })();
  // Whoever waits for it hears of it then.
  mining.catch(() => {});

  return {
    setBlockTime(ms) {
      blockMs = ms;
    },
    setRoom(isThere) {
      hasRoom = isThere;
    },
    reorg: (depth) =>
      alone(async () => {
        const height = await bitcoin.height();
        // Once more after a kill in the middle of it: no deeper than it was to be.
        const left = depth - (highest - height);
        if (left < 1) return;
        highest = height + 1;
        await bitcoin.reorg(left);
      }),
    async fund(address, coinsSat) {
      await insistOn(() => bitcoin.fund(address, coinsSat.map(BigInt)));
    },
    async passFinal() {
      const until = (await insistOn(bitcoin.height)) + bitcoinConfirmations;
      while ((await insistOn(bitcoin.height)) < until) await delay(lookMs);
    },
    async wallet(address) {
      await alone(async () => ledger.readUpTo((await bitcoin.height()) - maxBitcoinReorgDepth));
      return { sent: ledger.sentBy(address), coins: ledger.coinsOf(address) };
    },
    async stop() {
      stopped = true;
      await mining;
    },
  };
}

/** The node is away for a moment after it was killed. */
async function insistOn<T>(work: () => Promise<T>): Promise<T> {
  for (const deadline = Date.now() + knowsWithinMs; ; await delay(lookMs)) {
    try {
      return await work();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}
