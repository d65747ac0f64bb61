import { ApplicationFailure } from '@temporalio/common';
import type { ChainAdapter, Chains } from '../shared/chain/adapter.ts';
import type { Pool } from '../shared/db/pool.ts';
import { getTransaction, type TransactionRow } from '../shared/db/transactions.ts';
import { notFound } from './failures.ts';

/**
 * A payment and the chain it is made on.
 * @throws `ChainNotServed`, to be repeated: another worker may serve the chain, or this one after a change
 */
export async function findPayment(
  { pool, chains }: { pool: Pool; chains: Chains },
  transactionId: string,
): Promise<{ row: TransactionRow; adapter: ChainAdapter }> {
  const row = await getTransaction(pool, { id: transactionId });
  if (!row) throw notFound(`Transaction ${transactionId}`);
  const adapter = chains.get(row.chain);
  if (!adapter) throw ApplicationFailure.retryable(`Chain ${row.chain} is not served here.`, 'ChainNotServed');
  return { row, adapter };
}
