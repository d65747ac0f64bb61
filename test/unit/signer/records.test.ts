import { describe, expect, it } from 'vitest';
import { type BoundPayment, type BoundSlot, checkUse, type SlotUse } from '../../../signer/records.ts';

const A = 'eip155:1/0xwallet/nonce/7';
const B = 'eip155:1/0xwallet/nonce/8';
const now = new Date('2026-03-01T00:00:00Z');
const use: SlotUse = {
  ...{ keyId: 'key', slot: A, intent: 'native/0xshop/5', transactionId: 'txn_1', decisionId: 'dec_1' },
  ...{ replaces: [], validBefore: null, coins: [] },
};
const bound = { slot: A, intent: use.intent, validBefore: null, others: [] };
const unknown = { slot: undefined, payment: undefined, now };
const same = { intent: use.intent, transactionId: 'txn_1', valueSat: null };
const noop: SlotUse = { ...use, intent: '' };

interface Known {
  slot: BoundSlot | undefined;
  payment: BoundPayment | undefined;
  now: Date;
}
/** What is recorded of the one slot that a use takes. */
const check = (asked: SlotUse, { slot, ...known }: Known) =>
  checkUse(asked, { ...known, slots: new Map(slot ? [[asked.slot, slot]] : []) });

describe('a use of a slot', () => {
  it.each([
    ['of which nothing is known', use, unknown],
    ['for the same payment again', use, { slot: same, payment: bound, now }],
    ['that pays nobody, at a slot of a payment', noop, { slot: same, payment: bound, now }],
    ['that pays nobody, at a slot of another payment', { ...noop, transactionId: 'txn_2' }, { ...unknown, slot: same }],
    ['that pays nobody, for a payment that has another slot', { ...noop, slot: B }, { ...unknown, payment: bound }],
    ['in place of the one that the receipt names', { ...use, slot: B, replaces: [A] }, { ...unknown, payment: bound }],
    ['in place of one of those that it names', { ...use, slot: B, replaces: ['x', A] }, { ...unknown, payment: bound }],
    ['that replaces one which is not known here', { ...use, replaces: [B] }, unknown],
    [
      'in place of an authorisation that is over',
      { ...use, slot: B, replaces: [A] },
      { ...unknown, payment: { ...bound, validBefore: now.getTime() / 1000 } },
    ],
  ])('is allowed %s', (_, asked, known) => {
    expect(() => check(asked, known)).not.toThrow();
  });

  it.each([
    [
      'of another intent',
      { ...use, intent: 'native/0xshop/6' },
      { ...unknown, slot: same },
      /was used for payment txn_1/,
    ],
    ['by another payment', { ...use, transactionId: 'txn_2' }, { ...unknown, slot: same }, /takes no payment txn_2/],
    [
      'that was used up',
      use,
      { ...unknown, slot: { intent: '', transactionId: 'txn_1', valueSat: null } },
      /was used to pay nobody/,
    ],
    [
      'for a payment that has another one',
      { ...use, slot: B },
      { ...unknown, payment: bound },
      /must say that it replaces/,
    ],
    [
      'for a payment that has another one than the receipt names',
      { ...use, slot: B, replaces: ['eip155:1/0xwallet/nonce/6'] },
      { ...unknown, payment: bound },
      /txn_1 has slot .*nonce\/7; for slot .*nonce\/8/,
    ],
    [
      'for a payment that was of another amount',
      { ...use, slot: B, replaces: [A], intent: 'native/0xshop/6' },
      { ...unknown, payment: bound },
      /is of native\/0xshop\/5, not of native\/0xshop\/6/,
    ],
    [
      'in place of an authorisation that is good for one more millisecond',
      { ...use, slot: B, replaces: [A] },
      { ...unknown, payment: { ...bound, validBefore: 1772323200 }, now: new Date(1772323200_000 - 1) },
      /good until 2026-03-01T00:00:00.000Z/,
    ],
    [
      'for a payment that was ended, also by a receipt that names nothing',
      { ...use, replaces: [''] },
      { ...unknown, payment: { ...bound, slot: '' } },
      /ended before it was signed/,
    ],
  ])('is refused %s', (_, asked, known, message) => {
    expect(() => check(asked, known)).toThrow(
      expect.objectContaining({ code: 'slot_taken', message: expect.stringMatching(message) }),
    );
  });
});
