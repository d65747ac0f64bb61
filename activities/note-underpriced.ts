import type { ChainAdapter, ReplacementTerms } from '../shared/chain/adapter.ts';
import { RpcUnavailable } from '../shared/chain/errors.ts';
import { familyOf } from '../shared/chain/families.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import { findSlot, type SlotRow, wishFor } from '../shared/db/slots.ts';
import { lockTransaction, putNotice, type TransactionRow } from '../shared/db/transactions.ts';

/**
 * Notes that nodes ask for more than a payment's newest bytes offer, and asks for a replacement where one would offer more
 * as things are now: these bytes may be all that is ever wrong with it. What would offer the same is not signed, nor what
 * is above the ceiling; the notice says so then.
 * @param p.floor what they asked for, where they said so
 * @returns whether something is to be signed in place of the bytes
 */
export async function noteUnderpriced(
  pool: Pool,
  { row, adapter, reason, floor }: { row: TransactionRow; adapter: ChainAdapter; reason: string; floor?: string },
): Promise<boolean> {
  const terms = await termsOf(adapter, { owner: row.from_address, floor });
  return inTransaction(pool, async (db) => {
    const locked = await lockTransaction(db, { id: row.id });
    const slot = await findSlot(db, { transactionId: row.id });
    if (locked?.status !== 'pending' || !slot) return false;
    const next = slot.wanted === null ? betterOne(row, { slot, terms }) : 'worth';
    if (next === 'worth') await wishFor(db, { transactionId: row.id, wanted: 'speed_up' });
    const then = next === 'worth' ? 'One that offers more is being signed in its place.' : next;
    await putNotice(db, { id: row.id, notice: `Nodes ask for more than the transaction offers: ${reason}. ${then}` });
    return next === 'worth';
  });
}

/** Whether a new transaction in its place would offer more now; if not, why, as a sentence. */
function betterOne(
  { chain, from_address: from }: TransactionRow,
  { slot, terms }: { slot: SlotRow; terms: ReplacementTerms | undefined },
): 'worth' | string {
  const later = 'It is sent again from time to time; it can be sped up or cancelled.';
  if (!terms) return later;
  const family = familyOf(chain);
  const purpose = slot.purpose === 'payment' ? 'payment' : 'noop';
  const fresh = family.replace({ before: slot.payload, isSigned: false, purpose, from, terms });
  if ('refusal' in fresh) return `${fresh.refusal} ${later}`;
  return family.maxFeeOf(fresh.payload) > family.maxFeeOf(slot.payload) ? 'worth' : later;
}

/** Without them the payment waits as it is: the bytes have been stored, and are sent again. */
async function termsOf(
  adapter: ChainAdapter,
  p: { owner: string; floor: string | undefined },
): Promise<ReplacementTerms | undefined> {
  try {
    return await adapter.replacementTerms(p);
  } catch (error) {
    if (error instanceof RpcUnavailable) return undefined;
    throw error;
  }
}
