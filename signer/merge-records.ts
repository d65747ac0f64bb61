import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { peerOf, type SignerContext } from './context.ts';
import { openMessage } from './envelope.ts';
import { mergeLimits } from './merge-limits.ts';
import { requireActiveKey } from './owner-key.ts';
import { othersThan, PARTIES, type Party } from './parties.ts';
import { pageSchema, placeOf, type RecordsPage } from './records-page.ts';
import { Refusal } from './refusal.ts';
import type { Session } from './sessions.ts';

export const startMergeSchema = z.strictObject({ keyId: z.string().min(1).max(128) });
export const importRecordsSchema = z.strictObject({ from: z.literal(PARTIES), page: z.string() });

/** What one of the others has told so far. */
interface Told {
  /** The page that is awaited. */
  page: number;
  isDone: boolean;
}
interface MergeSession extends Session {
  keyId: string;
  merge: string;
  told: ReadonlyMap<Party, Told>;
}

/**
 * Begins to take over what the others recorded of a key. What they are to seal their pages for is made up here, so that
 * nobody can tell pages of an earlier time as if they were all.
 * @throws Refusal `unknown_key`
 */
export async function startMerge(
  context: SignerContext,
  { session, body: { keyId } }: { session: string; body: z.infer<typeof startMergeSchema> },
): Promise<{ merge: string }> {
  requireActiveKey(context, keyId);
  context.sessions.open({ id: session, kind: 'merge', about: keyId });
  const told = new Map(othersThan(context.party).map((party): [Party, Told] => [party, { page: 1, isDone: false }]));
  const state: MergeSession = { keyId, merge: randomBytes(32).toString('hex'), told, close: () => undefined };
  context.sessions.park(session, state);
  return { merge: state.merge };
}

/**
 * Takes one page; durable on return. Once both others have told everything, the key is signed with here again: whatever
 * this signer took part in, one of them was the other of the pair.
 * @throws Refusal `bad_message`, `unknown_session`, `limits_differ`
 */
export async function importRecords(
  context: SignerContext,
  { session, body: { from, page: message } }: { session: string; body: z.infer<typeof importRecordsSchema> },
): Promise<{ isComplete: boolean }> {
  const state = context.sessions.take(session, 'merge') as MergeSession;
  const { keyId, merge, told } = state;
  const teller = told.get(from);
  if (!teller || teller.isDone) throw new Refusal('bad_message', `signer ${from} has nothing (more) to tell`);
  const page = await openPage(context, { session, keyId, merge, from, page: teller.page, message });
  if (page.kind === 'limits') await mergeLimits(context, { keyId, from, page: page.page });
  else takePage(context, { keyId, from, page });
  teller.page += 1;
  teller.isDone = page.isLast;
  const isComplete = [...told.values()].every(({ isDone }) => isDone);
  if (isComplete) {
    context.store.markRecordsComplete(keyId);
    context.log.info({ keyId }, 'has the records of both others');
  }
  context.sessions.park(session, state);
  if (isComplete) context.sessions.end(session);
  return { isComplete };
}

async function openPage(
  context: SignerContext,
  p: { session: string; keyId: string; merge: string; from: Party; page: number; message: string },
): Promise<RecordsPage> {
  const body = await openMessage(
    { own: context.identity, sender: peerOf(context, p.from) },
    { context: placeOf({ ...p, to: context.party }), message: p.message },
  );
  try {
    return pageSchema.parse(JSON.parse(Buffer.from(body).toString('utf8')));
  } catch (cause) {
    throw new Refusal('bad_message', `what signer ${p.from} recorded has not the right shape`, {
      culprit: p.from,
      cause,
    });
  }
}

function takePage(
  context: SignerContext,
  { keyId, from, page }: { keyId: string; from: Party; page: Exclude<RecordsPage, { kind: 'limits' }> },
): void {
  const { store, log } = context;
  const conflicts = store.transaction(() => {
    switch (page.kind) {
      case 'slots':
        return store.mergeSlots({ keyId, rows: page.rows });
      case 'payments':
        return store.mergePayments({ keyId, rows: page.rows });
      case 'signatures':
        store.mergeSignatures({ keyId, rows: page.rows });
        return [];
    }
  });
  for (const about of conflicts) {
    log.error(
      { alert: 'records_conflict', keyId, from, about },
      'two signers recorded different things; neither is signed',
    );
  }
}
