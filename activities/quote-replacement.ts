import type { Chains, ReplacementTerms } from '../shared/chain/adapter.ts';
import type { Pool } from '../shared/db/pool.ts';
import { findPayment } from './find-payment.ts';

/**
 * Asks the chain what a replacement of a payment's transaction may cost. Writes nothing.
 * @param floor what nodes asked for when they refused the transaction as too cheap, where they have said so
 * @throws RpcUnavailable
 */
export function createQuoteReplacement({ pool, chains }: { pool: Pool; chains: Chains }) {
  return async function quoteReplacement(transactionId: string, floor?: string): Promise<ReplacementTerms> {
    const { row, adapter } = await findPayment({ pool, chains }, transactionId);
    return adapter.replacementTerms({ owner: row.from_address, floor });
  };
}
