import type { Chains, PrepareResult } from '../shared/chain/adapter.ts';
import { familyOf } from '../shared/chain/families.ts';
import type { Pool } from '../shared/db/pool.ts';
import { findSlot } from '../shared/db/slots.ts';
import { putNotice } from '../shared/db/transactions.ts';
import type { Patience } from '../shared/domain/transaction.ts';
import { awaitNoted } from './await-noted.ts';
import { findPayment } from './find-payment.ts';

/** `given_up`: for too long the chain could not be asked, or asked too much; `ended`: the payment was ended meanwhile. */
export type PreparePaymentResult =
  | PrepareResult
  | { readonly outcome: 'given_up'; readonly message: string }
  | { readonly outcome: 'ended' };

export interface PrepareDependencies {
  readonly pool: Pool;
  readonly chains: Chains;
  readonly clock: () => Date;
  /** When the step that is being tried now was tried for the first time. */
  readonly firstTriedAt: () => Date;
  readonly patience: Patience;
}

/**
 * Asks the chain whether the payment can be made and what it may cost. Notes what stands in the way.
 * @throws FeeAboveCeiling, RpcUnavailable: Temporal repeats until fees fall or the chain answers
 */
export function createPrepare({ pool, chains, clock, firstTriedAt, patience }: PrepareDependencies) {
  return async function prepare(transactionId: string): Promise<PreparePaymentResult> {
    const { row, adapter } = await findPayment({ pool, chains }, transactionId);
    if (row.status !== 'pending') return { outcome: 'ended' };
    const built = (await findSlot(pool, { transactionId }))?.payload;
    const former = built && familyOf(row.chain).isOutdated(built, clock()) ? built : undefined;
    try {
      const transfer = {
        from: row.from_address,
        to: row.to_address,
        token: { symbol: row.token, decimals: row.decimals, asset: row.asset },
        amountMinor: BigInt(row.amount_minor),
      };
      const prepared = await adapter.prepare(transfer, former);
      if (prepared.outcome === 'ready') await awaitNoted(pool, { row, prepared });
      return prepared;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const since = firstTriedAt();
      if (clock().getTime() - since.getTime() > patience.giveUpMs)
        return { outcome: 'given_up', message: `It could not be sent since ${since.toISOString()}: ${reason}` };
      await putNotice(pool, { id: transactionId, notice: reason });
      throw error;
    }
  };
}
