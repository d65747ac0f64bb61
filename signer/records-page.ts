import { z } from 'zod';
import type { MessageContext } from './envelope.ts';
import { limitsPageSchema } from './merge-limits.ts';
import type { Party } from './parties.ts';

/** What is told of a key, in this order. */
export const RECORD_KINDS = ['slots', 'payments', 'signatures', 'limits'] as const;
/** Records in one page: far below the longest body. */
export const PAGE_RECORDS_MAX = 500;

const atMs = z.int();
const intent = z.string().max(300);
const slot = z.string().max(200);
const id = z.string().max(128);
/** Satoshis; or a word where signers recorded different ones. Absent with signers that know no coins. */
const valueSat = z.string().max(16).nullable().default(null);

const validBefore = z.int().nullable();
/** Far more than merges ever find. */
const OTHERS_MAX = 100;
const others = z.array(z.strictObject({ slot, validBefore })).max(OTHERS_MAX).readonly().default([]);

/** One page of one kind, as one signer tells it another one; `isLast` ends everything that it has to tell. */
const common = { isLast: z.boolean() };
export const pageSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    ...common,
    kind: z.literal('slots'),
    rows: z.array(z.strictObject({ slot, intent, transactionId: id, valueSat, atMs })),
  }),
  z.strictObject({
    ...common,
    kind: z.literal('payments'),
    rows: z.array(z.strictObject({ transactionId: id, slot, intent, validBefore, others, decisionId: id, atMs })),
  }),
  z.strictObject({
    ...common,
    kind: z.literal('signatures'),
    rows: z.array(
      z.strictObject({
        address: z.string().max(90),
        digest: z.string().regex(/^[0-9A-F]{64}$/),
        signature: z.string().regex(/^([0-9A-F]{130})?$/),
        atMs,
      }),
    ),
  }),
  z.strictObject({ ...common, kind: z.literal('limits'), page: limitsPageSchema }),
]);
export type RecordsPage = z.infer<typeof pageSchema>;

/**
 * Where a page belongs.
 * @param p.merge what the signer that lacks the records made up for this merge: nobody can tell it old pages again
 * @param p.page counts from 1
 */
export function placeOf(p: {
  session: string;
  keyId: string;
  merge: string;
  page: number;
  from: Party;
  to: Party;
}): MessageContext {
  const { session, keyId, merge, page, from, to } = p;
  return { session, protocol: 'records', round: page, from, to, subject: `records of key ${keyId} for ${merge}` };
}
