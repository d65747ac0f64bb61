import type { Clock } from '../shared/db/clock.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import { getX402Payment, type X402FailureCode } from '../shared/db/x402-payments.ts';
import { endAndNote } from './end-x402.ts';
import { notFound } from './failures.ts';
import { lockX402 } from './lock-payment.ts';

export type SettleX402Result =
  | { readonly state: 'ended'; readonly status: 'settled' | 'expired' | 'failed' }
  /** It has no authorisation (any more), and may have one. */
  | { readonly state: 'again' }
  /** `leftMs` until the authorisation is over; less than zero afterwards. */
  | { readonly state: 'open'; readonly leftMs: number };

/** Where the database says that a payment's authorisation stands; what the chain says is written there by others. */
export function createSettleX402({ pool, clock }: { pool: Pool; clock: Clock }) {
  return async function settleX402(ledgerId: string): Promise<SettleX402Result> {
    const row = await getX402Payment(pool, { id: ledgerId });
    if (!row) throw notFound(`Payment ${ledgerId}`);
    if (row.status === 'failed') return { state: 'ended', status: 'failed' };
    if (row.settlement === 'settled' || row.settlement === 'expired') return { state: 'ended', status: row.settlement };
    if (row.valid_before === null) return { state: 'again' };
    return { state: 'open', leftMs: Number(row.valid_before) * 1000 - (await clock(pool)).getTime() };
  };
}

/** Ends a payment that cannot be signed. @returns `ending`: it fails once what may have been signed is over */
export function createFailX402({ pool }: { pool: Pool }) {
  return async function failX402(
    ledgerId: string,
    code: X402FailureCode,
    message: string,
  ): Promise<{ readonly outcome: 'issued' | 'failed' | 'ending' }> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockX402(db, ledgerId);
      if (row.status === 'completed') return { outcome: 'issued' };
      if (row.status === 'failed') return { outcome: 'failed' };
      return { outcome: await endAndNote(db, row, { code, message }) };
    });
  };
}
