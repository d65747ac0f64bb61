import { z } from 'zod';
import { peerOf, type SignerContext } from './context.ts';
import { sealMessage } from './envelope.ts';
import { limitsPage } from './merge-limits.ts';
import { requireActiveKey } from './owner-key.ts';
import { PARTIES } from './parties.ts';
import { PAGE_RECORDS_MAX, placeOf, RECORD_KINDS, type RecordsPage } from './records-page.ts';
import { Refusal } from './refusal.ts';
import { requireRecords } from './require-records.ts';

/** Where the next page begins. */
const cursorSchema = z.strictObject({
  page: z.int().min(1),
  kind: z.enum(RECORD_KINDS),
  after: z.union([z.int().min(0), z.string().max(64)]),
});
type Cursor = z.infer<typeof cursorSchema>;

export const exportRecordsSchema = z.strictObject({
  keyId: z.string().min(1).max(128),
  to: z.literal(PARTIES),
  merge: z.string().regex(/^[0-9a-f]{64}$/),
  /** Absent: from the beginning. */
  cursor: cursorSchema.optional(),
});

/**
 * Tells another signer a page of what this one recorded of a key, sealed to it. `next` is null with the last page.
 * @throws Refusal `unknown_key`, `records_missing` when this one lacks records itself
 */
export async function exportRecords(
  context: SignerContext,
  { session, body }: { session: string; body: z.infer<typeof exportRecordsSchema> },
): Promise<{ page: string; next: Cursor | null }> {
  const { keyId, to, merge, cursor = { page: 1, kind: RECORD_KINDS[0], after: 0 } } = body;
  if (to === context.party) throw new Refusal('malformed', 'to must be another signer');
  requireActiveKey(context, keyId);
  requireRecords(context, keyId);
  const { page, after } = readPage(context, { keyId, cursor });
  const next = nextCursor(cursor, after);
  const told: RecordsPage = { ...page, isLast: next === null };
  const sealed = await sealMessage(
    { own: context.identity, receiver: peerOf(context, to) },
    {
      context: placeOf({ session, keyId, merge, page: cursor.page, from: context.party, to }),
      body: Buffer.from(JSON.stringify(told)),
    },
  );
  return { page: sealed, next };
}

function nextCursor({ page, kind }: Cursor, after: Cursor['after'] | null): Cursor | null {
  if (after !== null) return { page: page + 1, kind, after };
  const following = RECORD_KINDS[RECORD_KINDS.indexOf(kind) + 1];
  return following ? { page: page + 1, kind: following, after: following === 'limits' ? '' : 0 } : null;
}

type Unplaced<T> = T extends RecordsPage ? Omit<T, 'isLast'> : never;

function readPage(
  context: SignerContext,
  { keyId, cursor }: { keyId: string; cursor: Cursor },
): { page: Unplaced<RecordsPage>; after: Cursor['after'] | null } {
  const { store } = context;
  const { kind } = cursor;
  const from = { keyId, after: Number(cursor.after), limit: PAGE_RECORDS_MAX };
  switch (kind) {
    case 'slots': {
      const { rows, after } = store.slotsPage(from);
      return { page: { kind, rows }, after };
    }
    case 'payments': {
      const { rows, after } = store.paymentsPage(from);
      return { page: { kind, rows }, after };
    }
    case 'signatures': {
      const { rows, after } = store.signaturesPage(from);
      return { page: { kind, rows: rows.map((row) => ({ ...row, signature: row.signature ?? '' })) }, after };
    }
    case 'limits': {
      const page = limitsPage(context, { keyId, after: String(cursor.after) });
      return { page: { kind, page }, after: page.next };
    }
  }
}
