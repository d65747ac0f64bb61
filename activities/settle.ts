import { type AttemptRow, findAttempts } from '../shared/db/attempts.ts';
import { closeHolds, type Hold } from '../shared/db/holds.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { closeReservation } from '../shared/db/reservations.ts';
import { closeSlot, findSlot, type SlotRow } from '../shared/db/slots.ts';
import {
  confirmTransaction,
  type FailureCode,
  failTransaction,
  noteReceipt,
  type TransactionRow,
  takeLongestWaiting,
} from '../shared/db/transactions.ts';
import { endUnsent, endUnsigned, type Failure, noteFailure } from '../shared/end-unsent.ts';
import { noteTransaction } from '../shared/note-transaction.ts';
import { lockAgentAndTransaction } from './end-payment.ts';
import { impossible } from './failures.ts';

/** `wake`: the payment that has waited longest for a nonce, now that one is free. */
export interface Ended {
  readonly state: 'ended';
  readonly status: 'confirmed' | 'failed';
  readonly wake?: string;
}

/** `replace`: something is to be signed in place of what was signed at its nonce. */
export interface Open {
  readonly state: 'open';
  readonly replace?: true;
}

/**
 * Ends the payment if one of its attempts is final: row and slot in one database transaction.
 * Reads only what the watcher stored, so that a signal sent by hand settles nothing.
 */
export function createSettle({ pool }: { pool: Pool }) {
  return async function settle(transactionId: string): Promise<Ended | Open> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return ended(db, row, row.status);
      const attempts = await findAttempts(db, { transactionId });
      const slot = await findSlot(db, { transactionId });
      const final = attempts.find((attempt) => attempt.final_at);
      if (!final) return isToBeReplaced(slot, attempts) ? { state: 'open', replace: true } : { state: 'open' };
      const { hash, fee_minor: feeMinor, block_number: blockNumber } = final;
      if (feeMinor === null || blockNumber === null) throw impossible(`Attempt ${hash} is final without a receipt.`);
      const fact = { id: row.id, hash, feeMinor, blockNumber, confirmations: row.confirmations };
      const isPaid = final.succeeded === true && final.purpose === 'payment';
      await closeReservation(db, { paymentId: transactionId, state: isPaid ? 'settled' : 'released' });
      await closeHolds(db, { ownerId: row.id, block: blockNumber, spent: spentOf(row, { feeMinor, isPaid }) });
      await closeSlot(db, { transactionId });
      if (isPaid) await confirm(db, row, fact);
      else await failByChain(db, row, { fact, failure: failureOf(final, slot) });
      return ended(db, row, isPaid ? 'confirmed' : 'failed');
    });
  };
}

/** What the final receipt says. */
type Receipt = Parameters<typeof confirmTransaction>[1];

async function confirm(db: Queryable, { id }: TransactionRow, fact: Receipt): Promise<void> {
  if (await confirmTransaction(db, fact)) await noteTransaction(db, { id, type: 'payment.completed' });
}

async function failByChain(
  db: Queryable,
  row: TransactionRow,
  { fact, failure }: { fact: Receipt; failure: Failure },
): Promise<void> {
  const isFailed = await failTransaction(db, { id: row.id, ...failure });
  await noteReceipt(db, fact);
  if (isFailed) await noteFailure(db, row, failure);
}

/** Whether a replacement is wanted, or was decided upon and is not signed yet. */
function isToBeReplaced(slot: SlotRow | undefined, attempts: readonly AttemptRow[]): boolean {
  if (!slot || attempts.some((each) => each.block_number !== null)) return false;
  const isSigned = attempts.some((each) => each.version === slot.version);
  return slot.wanted !== null || (!isSigned && (attempts.length > 0 || slot.purpose !== 'payment'));
}

/** Why a payment has failed of which this is what the chain has executed. */
function failureOf({ hash, block_number, purpose }: AttemptRow, slot: SlotRow | undefined): Failure {
  if (purpose === 'payment')
    return {
      code: 'reverted',
      message: `The chain executed ${hash} in block ${block_number} and reverted it: nothing was transferred, the fee is spent.`,
    };
  return {
    code: slot?.end_code ?? 'cancelled',
    message: `${slot?.end_message ?? 'The payment was cancelled.'} In its place the chain executed ${hash} in block ${block_number}: nothing was transferred, the fee is spent.`,
  };
}

/** What has left the wallet: of what did not pay, only the fee. */
function spentOf(
  { asset, amount_minor }: TransactionRow,
  { isPaid, feeMinor }: { isPaid: boolean; feeMinor: string },
): Hold[] {
  const amountMinor = isPaid ? BigInt(amount_minor) : 0n;
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

/**
 * Ends a payment that cannot be sent (any more), and gives back or closes its place.
 * @param isImpossible no signature of it, stored or not, is good any more
 * @returns `open`, to be replaced: it fails once its nonce is used up
 */
export function createFail({ pool }: { pool: Pool }) {
  return async function fail(
    transactionId: string,
    code: FailureCode,
    message: string,
    isImpossible = false,
  ): Promise<Ended | Open> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return ended(db, row, row.status);
      if (isImpossible) await endUnsigned(db, row, { code, message });
      else if ((await endUnsent(db, row, { code, message })) === 'filling') return { state: 'open', replace: true };
      return ended(db, row, 'failed');
    });
  };
}

async function ended(db: Queryable, row: TransactionRow, status: 'confirmed' | 'failed'): Promise<Ended> {
  const wake = await takeLongestWaiting(db, { walletId: row.wallet_id, chain: row.chain });
  return wake === undefined ? { state: 'ended', status } : { state: 'ended', status, wake };
}
