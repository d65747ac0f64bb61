import { setTimeout as delay } from 'node:timers/promises';
import type { ChainAdapter, Chains } from '../shared/chain/adapter.ts';
import type { BalancesInput, ChainBalances } from '../shared/temporal.ts';

/** A chain that takes longer is told as unreadable: somebody waits for the others. */
const chainWaitMs = 3_000;

/** What an address holds on several chains. A chain that does not answer in time hides no other. Writes nothing. */
export function createReadBalances({ chains }: { chains: Chains }) {
  return function readBalances({ owner, chains: wanted }: BalancesInput): Promise<ChainBalances[]> {
    return Promise.all(
      wanted.map(async (chain) => {
        const adapter = chains.get(chain);
        if (!adapter) return { chain, error: 'This chain is not served by the worker that was asked.' };
        return readChain(adapter, owner).catch((error: unknown) => ({ chain, error: (error as Error).message }));
      }),
    );
  };
}

async function readChain(adapter: ChainAdapter, owner: string): Promise<ChainBalances> {
  const late = new AbortController();
  const tooLate = delay(chainWaitMs, undefined, { signal: late.signal }).then(() => {
    throw new Error(`The chain did not answer within ${chainWaitMs / 1000} s.`);
  });
  tooLate.catch(() => {});
  try {
    const { atBlock, data } = await Promise.race([adapter.balances({ owner }), tooLate]);
    const entries = data.map((each) =>
      'error' in each
        ? { token: each.token.symbol, error: each.error }
        : { token: each.token.symbol, amountMinor: each.amountMinor.toString() },
    );
    return { chain: adapter.chain.id, atBlock, data: entries };
  } finally {
    late.abort();
  }
}
