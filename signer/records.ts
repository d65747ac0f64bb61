import { Refusal } from './refusal.ts';

/** What one signature is for, in the terms of the records. */
export interface SlotUse {
  keyId: string;
  /** See shared/domain/slot.ts. */
  slot: string;
  /** Asset, recipient and amount; empty for what pays nobody. */
  intent: string;
  transactionId: string;
  decisionId: string;
  /** Slots that the payment gives up, as its receipt says. */
  replaces: readonly string[];
  /** Unix seconds after which an authorisation is worth nothing; null for a nonce, which waits for ever. */
  validBefore: number | null;
}

/** What a slot was first used for, for ever. */
export interface BoundSlot {
  intent: string;
  transactionId: string;
}

/** The slot that a payment has now; empty once it is never to be signed. */
export interface BoundPayment {
  slot: string;
  intent: string;
  validBefore: number | null;
}

/**
 * One slot, one payment; one payment, one slot. For the same payment at the same slot anything else may differ (its fee).
 * What pays nobody may stand beside anything; a slot that it was the first to use takes no payment afterwards. A payment
 * gets another slot only by a receipt that names the one which it has, and in place of an authorisation only when that
 * one is over by this signer's own clock.
 * @throws Refusal `slot_taken`, naming both sides
 */
export function checkUse(
  use: SlotUse,
  known: { slot: BoundSlot | undefined; payment: BoundPayment | undefined; now: Date },
): void {
  if (use.intent === '') return;
  const { slot, payment } = known;
  if (slot && (slot.intent !== use.intent || slot.transactionId !== use.transactionId)) {
    const had = slot.intent === '' ? 'to pay nobody' : `for payment ${slot.transactionId} (${slot.intent})`;
    refuse(`slot ${use.slot} was used ${had}; it takes no payment ${use.transactionId} (${use.intent})`);
  }
  if (!payment || payment.slot === use.slot) return;
  const what = `payment ${use.transactionId}`;
  if (payment.slot === '') refuse(`${what} was ended before it was signed, and is not signed any more`);
  if (!use.replaces.includes(payment.slot)) {
    refuse(`${what} has slot ${payment.slot}; for slot ${use.slot} its receipt must say that it replaces that one`);
  }
  if (payment.intent !== use.intent) refuse(`${what} is of ${payment.intent}, not of ${use.intent}`);
  if (payment.validBefore !== null && known.now.getTime() < payment.validBefore * 1000) {
    const until = new Date(payment.validBefore * 1000).toISOString();
    refuse(`${what} has an authorisation that is good until ${until}, and gets no other one before`);
  }
}

function refuse(message: string): never {
  throw new Refusal('slot_taken', message);
}
