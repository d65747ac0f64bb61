import { familyOfPayload } from '../shared/chain/families.ts';
import { lockWallet } from '../shared/db/agents.ts';
import { hasAttempts } from '../shared/db/attempts.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import { findSlot, hasLaterSlots, type SlotRow } from '../shared/db/slots.ts';
import { endUnsigned } from '../shared/end-unsent.ts';
import type { SignerClient } from '../signer/client.ts';

import { lockAgentAndTransaction } from './end-payment.ts';
import { notFound } from './failures.ts';

/** What the signers are asked. */
type EndRequest = Parameters<SignerClient['endUnsigned']>[0];

/** A nonce that is to be used up, of which nothing is stored, and that no later one waits for. */
const mayBeGivenBack = (slot: SlotRow | undefined): slot is SlotRow =>
  slot !== undefined && slot.purpose === 'payment' && (slot.wanted === 'fill' || slot.wanted === 'cancel');

/** What the signers have to be asked before a payment's nonce may go to another one; undefined: it is used up anyway. */
export function createFindUnsigned({ pool }: { pool: Pool }) {
  return async function findUnsigned(transactionId: string): Promise<EndRequest | undefined> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      const slot = await findSlot(db, { transactionId });
      if (row.status !== 'pending' || !mayBeGivenBack(slot)) return undefined;
      if ((await hasAttempts(db, { transactionId })) || (await hasLaterSlots(db, slot))) return undefined;
      const wallet = await lockWallet(db, { id: row.wallet_id });
      if (!wallet) throw notFound(`Wallet ${row.wallet_id}`);
      const named = familyOfPayload(slot.payload).slotOf(slot.payload, wallet.address);
      return { keyId: wallet.account_key_id, slot: named, transactionId };
    });
  };
}

/** Asks the signers. @returns whether nothing was signed, and nothing will be */
export function createEndUnsigned({ signer }: { signer: SignerClient }) {
  return async function endUnsigned(request: EndRequest): Promise<boolean> {
    return signer.endUnsigned(request);
  };
}

/**
 * Ends a payment of which the signers have signed nothing, and never will; its nonce is free for another one. Where
 * another one has got a later nonce meanwhile, this one stays, to be used up.
 */
export function createGiveBackNonce({ pool }: { pool: Pool }) {
  return async function giveBackNonce(transactionId: string): Promise<{ readonly isGivenBack: boolean }> {
    return inTransaction(pool, async (db) => {
      const { row } = await lockAgentAndTransaction(db, transactionId);
      if (row.status !== 'pending') return { isGivenBack: true };
      await lockWallet(db, { id: row.wallet_id });
      const slot = await findSlot(db, { transactionId });
      if (!mayBeGivenBack(slot) || (await hasAttempts(db, { transactionId }))) return { isGivenBack: false };
      if (await hasLaterSlots(db, slot)) return { isGivenBack: false };
      await endUnsigned(db, row, { code: slot.end_code ?? 'cancelled', message: slot.end_message ?? '' });
      return { isGivenBack: true };
    });
  };
}
