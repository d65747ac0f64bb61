import { z } from 'zod';
import type { MessageContext } from './envelope.ts';
import { LIMITS_DOCUMENT_MAX } from './limits-document.ts';
import type { Party } from './parties.ts';

/** What is told of a key, in this order. */
export const RECORD_KINDS = ['slots', 'payments', 'signatures', 'spending', 'owner'] as const;
export type RecordKind = (typeof RECORD_KINDS)[number];
/** Records in one page: far below the longest body. */
export const PAGE_RECORDS_MAX = 500;
export const PAGE_DOCUMENTS_MAX = 20;

const atMs = z.int();
const intent = z.string().max(300);
const slot = z.string().max(200);
const id = z.string().max(128);
const minor = z.string().regex(/^(0|[1-9][0-9]{0,79})$/);
const documents = z.array(z.string().max(LIMITS_DOCUMENT_MAX));

/** One page of one kind, as one signer tells it another one; `isLast` ends everything that it has to tell. */
const common = { isLast: z.boolean() };
export const pageSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    ...common,
    kind: z.literal('slots'),
    rows: z.array(z.strictObject({ slot, intent, transactionId: id, atMs })),
  }),
  z.strictObject({
    ...common,
    kind: z.literal('payments'),
    rows: z.array(
      z.strictObject({ transactionId: id, slot, intent, validBefore: z.int().nullable(), decisionId: id, atMs }),
    ),
  }),
  z.strictObject({
    ...common,
    kind: z.literal('signatures'),
    rows: z.array(
      z.strictObject({
        address: z.string().max(42),
        digest: z.string().regex(/^[0-9A-F]{64}$/),
        signature: z.string().regex(/^([0-9A-F]{130})?$/),
        atMs,
      }),
    ),
  }),
  z.strictObject({
    ...common,
    kind: z.literal('spending'),
    rows: z.array(
      z.strictObject({
        ...{ slot: z.string().max(64), wallet: z.string().max(42), asset: z.string().max(100) },
        ...{ amountMinor: minor, knownTo: z.int().min(0).max(7), atMs },
      }),
    ),
  }),
  z.strictObject({
    ...common,
    kind: z.literal('owner'),
    /** Of the account's owner. */
    ownerKey: z.string().max(64).nullable(),
    changes: documents,
    limits: documents,
  }),
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
