import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import type { Patience } from '../shared/domain/transaction.ts';
import { endUnsent } from '../shared/end-unsent.ts';
import { lockAgentAndTransaction } from './end-payment.ts';
import { noteUnfunded } from './note-unfunded.ts';

export interface AwaitFundsResult {
  readonly outcome: 'waiting' | 'failed' | 'filling' | 'ended';
}

/**
 * Notes that a payment waits for money to pay its fee with, and tells the receivers of events once; ends it when that
 * has lasted too long.
 * @param message what is there and what is needed
 */
export function createAwaitFunds({ pool, clock, patience }: { pool: Pool; clock: Clock; patience: Patience }) {
  return async function awaitFunds(transactionId: string, message: string): Promise<AwaitFundsResult> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return { outcome: 'ended' };
      const now = await clock(db);
      const since = (await noteUnfunded(db, { row, notice: message, now }))!;
      if (now.getTime() - since.getTime() > patience.fundingWaitMs)
        return { outcome: await endUnsent(db, row, { code: 'insufficient_funds', message }) };
      return { outcome: 'waiting' };
    });
  };
}
