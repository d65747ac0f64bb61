import type { Chains, PrepareResult } from '../shared/chain/adapter.ts';
import type { Pool } from '../shared/db/pool.ts';
import { findPayment } from './find-payment.ts';

/**
 * Asks the chain whether the payment can be made and what it may cost. Writes nothing.
 * @throws FeeAboveCeiling, RpcUnavailable: Temporal repeats until fees fall or the chain answers
 */
export function createPrepare({ pool, chains }: { pool: Pool; chains: Chains }) {
  return async function prepare(transactionId: string): Promise<PrepareResult> {
    const { row, adapter } = await findPayment({ pool, chains }, transactionId);
    return adapter.prepare({
      from: row.from_address,
      to: row.to_address,
      token: { symbol: row.token, decimals: row.decimals, asset: row.asset },
      amountMinor: BigInt(row.amount_minor),
    });
  };
}
