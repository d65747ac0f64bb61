import { createBroadcast } from './broadcast.ts';
import { createCheckAuthorization } from './check-authorization.ts';
import { type CheckChainDependencies, createCheckChain } from './check-chain.ts';
import { createFindLostWallets } from './find-lost-wallets.ts';
import { createPrepare, type PrepareDependencies } from './prepare.ts';
import { createQuote } from './quote.ts';
import { createQuoteReplacement } from './quote-replacement.ts';
import { createReadBalances } from './read-balances.ts';
import { createReadGas, type ReadGasDependencies } from './read-gas.ts';

/** Activities of queue `wallet-chain`: they reach nodes, and the database. */
export function createChainActivities(deps: CheckChainDependencies & PrepareDependencies & ReadGasDependencies) {
  return {
    readBalances: createReadBalances(deps),
    readGas: createReadGas(deps),
    findLostWallets: createFindLostWallets(deps),
    quote: createQuote(deps),
    prepare: createPrepare(deps),
    quoteReplacement: createQuoteReplacement(deps),
    broadcast: createBroadcast(deps),
    checkChain: createCheckChain(deps),
    checkAuthorization: createCheckAuthorization(deps),
  };
}
export type ChainActivities = ReturnType<typeof createChainActivities>;
