import { ApplicationFailure } from '@temporalio/common';
import type { Chains, PrepareResult } from '../shared/chain/adapter.ts';
import type { QuoteInput } from '../shared/temporal.ts';

/** Asks the chain about a payment that nobody has asked for yet. Writes nothing. @throws FeeAboveCeiling, RpcUnavailable */
export function createQuote({ chains }: { chains: Chains }) {
  return async function quote({ chain, amountMinor, ...transfer }: QuoteInput): Promise<PrepareResult> {
    const adapter = chains.get(chain);
    if (!adapter) throw ApplicationFailure.retryable(`Chain ${chain} is not served here.`, 'ChainNotServed');
    return adapter.prepare({ ...transfer, amountMinor: BigInt(amountMinor) });
  };
}
