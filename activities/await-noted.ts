import { setTimeout as delay } from 'node:timers/promises';
import type { PreparedTransfer } from '../shared/chain/adapter.ts';
import { isUnnoted } from '../shared/db/holds.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { TransactionRow } from '../shared/db/transactions.ts';
import { findShortage } from './take-holds.ts';

/** How often the database is asked, and for how long in one try of the step; the watcher reads a new block every few seconds. */
const lookMs = 100;
const longestMs = 5_000;

/**
 * A balance of a block that the watcher has not read yet may lack money that payments in that block took, while their
 * holds still stand: what is there would count as spent twice. Where that alone may be why there is too little, waits until the
 * watcher has noted the block.
 * @throws Error when that takes long: the step is to be tried again
 */
export async function awaitNoted(
  pool: Pool,
  { row, prepared }: { row: TransactionRow; prepared: PreparedTransfer },
): Promise<void> {
  const place = { walletId: row.wallet_id, chain: row.chain, atBlock: prepared.atBlock };
  const deadline = performance.now() + longestMs;
  while (await findShortage(pool, { row, prepared })) {
    if (!(await isUnnoted(pool, place))) return;
    if (performance.now() > deadline)
      throw new Error(`The balance is of block ${prepared.atBlock}, and what payments took there is not known yet.`);
    await delay(lookMs);
  }
}
