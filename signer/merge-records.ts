import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { peerOf, type SignerContext } from './context.ts';
import { openMessage } from './envelope.ts';
import { replaceOwnerKey, requireActiveKey } from './owner-key.ts';
import { othersThan, PARTIES, type Party } from './parties.ts';
import { pageSchema, placeOf, type RecordsPage } from './records-page.ts';
import { Refusal } from './refusal.ts';
import type { Session } from './sessions.ts';
import { takeLimits } from './set-limits.ts';

export const startMergeSchema = z.strictObject({ keyId: z.string().min(1).max(128) });
export const importRecordsSchema = z.strictObject({ from: z.literal(PARTIES), page: z.string() });

/** What one of the others has told so far. */
interface Told {
  /** The page that is awaited. */
  page: number;
  isDone: boolean;
  /** What it says of the account's owner. */
  owner: (RecordsPage & { kind: 'owner' })[];
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
  const told = new Map(
    othersThan(context.party).map((party): [Party, Told] => [party, { page: 1, isDone: false, owner: [] }]),
  );
  const state: MergeSession = { keyId, merge: randomBytes(32).toString('hex'), told, close: () => undefined };
  context.sessions.park(session, state);
  return { merge: state.merge };
}

/**
 * Takes one page; durable on return. Once both others have told everything, the key is signed with here again: whatever
 * this signer took part in, one of them was the other of the pair.
 * @throws Refusal `bad_message`, `unknown_session`
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
  take(context, { keyId, from, page });
  if (page.kind === 'owner') teller.owner.push(page);
  teller.page += 1;
  teller.isDone = page.isLast;
  const isComplete = [...told.values()].every(({ isDone }) => isDone);
  if (isComplete) await complete(context, state);
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

function take(context: SignerContext, { keyId, from, page }: { keyId: string; from: Party; page: RecordsPage }): void {
  const { store, log, party } = context;
  const conflicts = store.transaction(() => {
    switch (page.kind) {
      case 'slots':
        return store.mergeSlots({ keyId, rows: page.rows });
      case 'payments':
        return store.mergePayments({ keyId, rows: page.rows });
      case 'signatures':
        store.mergeSignatures({ keyId, rows: page.rows });
        return [];
      case 'spending':
        for (const row of page.rows) {
          const knownTo = row.knownTo | (1 << (party - 1)) | (1 << (from - 1));
          store.putSpending({ ...row, keyId, knownTo, amountMinor: BigInt(row.amountMinor) });
        }
        return [];
      case 'owner':
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

/** An owner's key that both others know, and this signer does not, was registered while it was away. */
async function complete(context: SignerContext, { keyId, told }: MergeSession): Promise<void> {
  const { store, log } = context;
  const words = [...told.values()].map(({ owner }) => owner);
  const [first, second] = words.map((pages) => pages[0]?.ownerKey);
  if (first && first === second) store.registerOwnerKey({ keyId, ownerKey: first });
  for (const page of words.flat()) await takeOwnersWord(context, { keyId, page });
  store.markRecordsComplete(keyId);
  log.info({ keyId }, 'has the records of both others');
}

/** Whatever of it the owner signed counts, as far as it is newer; the rest is as if it was not told. */
async function takeOwnersWord(
  context: SignerContext,
  { keyId, page }: { keyId: string; page: RecordsPage & { kind: 'owner' } },
): Promise<void> {
  const ignoreRefusal = (error: unknown) => {
    if (!(error instanceof Refusal)) throw error;
  };
  const takeAll = async () => {
    for (const document of page.limits) await takeLimits(context, { keyId, document }).catch(ignoreRefusal);
  };
  await takeAll();
  for (const document of page.changes) {
    await replaceOwnerKey(context, { body: { document } }).catch(ignoreRefusal);
    await takeAll();
  }
}
