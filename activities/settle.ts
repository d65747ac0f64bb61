import { findAttempts } from '../shared/db/attempts.ts';
import { closeHolds, type Hold } from '../shared/db/holds.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { closeReservation } from '../shared/db/reservations.ts';
import { closeSlot } from '../shared/db/slots.ts';
import {
  confirmTransaction,
  type FailureCode,
  failTransaction,
  noteReceipt,
  type TransactionRow,
  takeLongestWaiting,
} from '../shared/db/transactions.ts';
import { endUnsent, lockAgentAndTransaction } from './end-payment.ts';
import { impossible } from './failures.ts';

/** `wake`: the payment that has waited longest for a nonce, now that one is free. */
export interface Ended {
  readonly state: 'ended';
  readonly status: 'confirmed' | 'failed';
  readonly wake?: string;
}

/**
 * Ends the payment if one of its attempts is final: row and slot in one database transaction.
 * Reads only what the watcher stored, so that a signal sent by hand settles nothing.
 */
export function createSettle({ pool }: { pool: Pool }) {
  return async function settle(transactionId: string): Promise<Ended | { readonly state: 'open' }> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return ended(db, row, row.status);
      const final = (await findAttempts(db, { transactionId })).find((attempt) => attempt.final_at);
      if (!final) return { state: 'open' };
      const { hash, fee_minor: feeMinor, block_number: blockNumber } = final;
      if (feeMinor === null || blockNumber === null) throw impossible(`Attempt ${hash} is final without a receipt.`);
      const fact = { id: row.id, hash, feeMinor, blockNumber, confirmations: row.confirmations };
      await closeReservation(db, { transactionId, state: final.succeeded ? 'settled' : 'released' });
      await closeHolds(db, { ownerId: row.id, block: blockNumber, spent: spentOf(row, { feeMinor, ...final }) });
      if (final.succeeded) await confirmTransaction(db, fact);
      else {
        const message = `The chain executed ${hash} in block ${blockNumber} and reverted it: nothing was transferred, the fee is spent.`;
        await failTransaction(db, { id: row.id, code: 'reverted', message });
        await noteReceipt(db, fact);
      }
      await closeSlot(db, { transactionId });
      return ended(db, row, final.succeeded ? 'confirmed' : 'failed');
    });
  };
}

/** What has left the wallet: of a reverted payment only the fee. */
function spentOf(
  { asset, amount_minor }: TransactionRow,
  { succeeded, feeMinor }: { succeeded: boolean | null; feeMinor: string },
): Hold[] {
  const amountMinor = succeeded ? BigInt(amount_minor) : 0n;
  const fee = BigInt(feeMinor);
  const spent =
    asset === 'native'
      ? [{ asset, amountMinor: amountMinor + fee }]
      : [
          { asset, amountMinor },
          { asset: 'native', amountMinor: fee },
        ];
  return spent.filter((each) => each.amountMinor > 0n);
}

/** Ends a payment that cannot be sent (any more), and gives back or closes its nonce. */
export function createFail({ pool }: { pool: Pool }) {
  return async function fail(transactionId: string, code: FailureCode, message: string): Promise<Ended> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return ended(db, row, row.status);
      await endUnsent(db, row, { code, message });
      return ended(db, row, 'failed');
    });
  };
}

async function ended(db: Queryable, row: TransactionRow, status: 'confirmed' | 'failed'): Promise<Ended> {
  const wake = await takeLongestWaiting(db, { walletId: row.wallet_id, chain: row.chain });
  return wake === undefined ? { state: 'ended', status } : { state: 'ended', status, wake };
}
