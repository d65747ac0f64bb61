import { Refusal } from './refusal.ts';

/** A coin of a wallet, and what it is said to be worth. */
export interface BoundCoin {
  slot: string;
  /** Satoshis, a decimal string. */
  valueSat: string;
}

/** What one signature is for, in the terms of the records. */
export interface SlotUse {
  keyId: string;
  /** See shared/domain/slot.ts. */
  slot: string;
  /** All coins that a Bitcoin transaction spends, whichever is signed for now; `slot` is the first one. Empty for others. */
  coins: readonly BoundCoin[];
  /** Asset, recipient and amount; empty for what pays nobody. */
  intent: string;
  transactionId: string;
  decisionId: string;
  /** Slots that the payment gives up, as its receipt says. */
  replaces: readonly string[];
  /** Unix seconds after which what is signed is worth nothing; null for what waits for ever. */
  validBefore: number | null;
}

/** What a slot was first used for, for ever. */
export interface BoundSlot {
  intent: string;
  transactionId: string;
  /** Of a coin: what it was said to be worth; null for other slots. */
  valueSat: string | null;
}

/** A slot where a payment was signed for, and until when that is good; see `SlotUse`. */
export interface SignedAt {
  slot: string;
  validBefore: number | null;
}

/** The slot that a payment has now; empty once it is never to be signed. */
export interface BoundPayment extends SignedAt {
  intent: string;
  /** Other slots that signers had for it when their records were merged: no one of them knew which one was given up. */
  others: readonly SignedAt[];
}

/** All places that a use takes. */
export function placesOf({ slot, coins }: SlotUse): { slot: string; valueSat: string | null }[] {
  return coins.length === 0 ? [{ slot, valueSat: null }] : [...coins];
}

/**
 * One slot, one payment; one payment, one slot. For the same payment at the same slot anything else may differ (its fee).
 * What pays nobody may stand beside anything; a slot that it was the first to use takes no payment afterwards. A payment
 * gets another slot only by a receipt that names the one which it has, and in place of what expires only when that is
 * over by this signer's own clock.
 * Where signers knew different slots of a payment, that holds for each of them.
 * Every coin of a transaction is held like its slot, and to one value for ever: a signature over an input says nothing
 * about the values of the others, so whoever lies about another one each time would have a fee signed that nobody saw.
 * @param known.slots what is recorded of the places that the use takes
 * @throws Refusal `slot_taken`, naming both sides
 */
export function checkUse(
  use: SlotUse,
  known: { slots: ReadonlyMap<string, BoundSlot>; payment: BoundPayment | undefined; now: Date },
): void {
  for (const place of placesOf(use)) {
    const bound = known.slots.get(place.slot);
    if (bound) checkPlace(use, { ...place, bound });
  }
  if (use.intent !== '' && known.payment) checkPayment(use, { payment: known.payment, now: known.now });
}

function checkPlace(use: SlotUse, p: { slot: string; valueSat: string | null; bound: BoundSlot }): void {
  const { slot, valueSat, bound } = p;
  if (bound.valueSat !== valueSat) {
    refuse(`slot ${slot} was used as a coin of ${bound.valueSat} sat; it cannot be one of ${valueSat} sat`);
  }
  if (use.intent === '' || (bound.intent === use.intent && bound.transactionId === use.transactionId)) return;
  const had = bound.intent === '' ? 'to pay nobody' : `for payment ${bound.transactionId} (${bound.intent})`;
  refuse(`slot ${slot} was used ${had}; it takes no payment ${use.transactionId} (${use.intent})`);
}

function checkPayment(use: SlotUse, { payment, now }: { payment: BoundPayment; now: Date }): void {
  const what = `payment ${use.transactionId}`;
  if (payment.slot === '') refuse(`${what} was ended before it was signed, and is not signed any more`);
  for (const other of [payment, ...payment.others]) {
    if (other.slot === use.slot) continue;
    if (!use.replaces.includes(other.slot)) {
      refuse(`${what} has slot ${other.slot}; for slot ${use.slot} its receipt must say that it replaces that one`);
    }
    if (payment.intent !== use.intent) refuse(`${what} is of ${payment.intent}, not of ${use.intent}`);
    if (other.validBefore !== null && now.getTime() < other.validBefore * 1000) {
      const until = new Date(other.validBefore * 1000).toISOString();
      refuse(`${what} has a signature that is good until ${until}, and gets no other one before`);
    }
  }
}

function refuse(message: string): never {
  throw new Refusal('slot_taken', message);
}
