import { type BroadcastDependencies, createBroadcast } from './broadcast.ts';
import { createCheckChain } from './check-chain.ts';
import { createPrepare } from './prepare.ts';
import { createQuote } from './quote.ts';
import { createReadBalances } from './read-balances.ts';

/** Activities of queue `wallet-chain`: they reach nodes, and the database. */
export function createChainActivities(deps: BroadcastDependencies) {
  return {
    readBalances: createReadBalances(deps),
    quote: createQuote(deps),
    prepare: createPrepare(deps),
    broadcast: createBroadcast(deps),
    checkChain: createCheckChain(deps),
  };
}
export type ChainActivities = ReturnType<typeof createChainActivities>;
