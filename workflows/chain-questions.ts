import type { BalancesInput, QuoteInput } from '../shared/temporal.ts';
import { quote as askQuote, readBalances } from './proxies.ts';

// The api reaches no chain: what it wants to know of one goes this way, to the worker that does.

/** What an address holds on several chains. */
export async function balances(input: BalancesInput) {
  return readBalances(input);
}

/** What a payment would cost, and whether the chain would take it. */
export async function quote(input: QuoteInput) {
  return askQuote(input);
}
