import { createHash } from 'node:crypto';
import { bytesToHex } from 'viem';
import { z } from 'zod';
import { peerOf, type SignerContext } from './context.ts';
import { decodeBatch, encodeBatch, type KeyShare } from './engine/engine.ts';
import { type MessageContext, openMessage, sealMessage } from './envelope.ts';
import { opens } from './epoch.ts';
import { blaming, rethrowEngineFault } from './fault.ts';
import { othersThan, PARTIES, type Party, THRESHOLD } from './parties.ts';
import { openRefresh } from './refresh.ts';
import { Refusal } from './refusal.ts';
import type { Outbound } from './rounds.ts';
import { parseShare } from './shares.ts';
import type { Role } from './wire.ts';

const keyId = z.string().min(1).max(128);
const epoch = z.int().min(1);
const hexBytes = (n: number) => z.string().regex(new RegExp(`^0x[0-9a-f]{${2 * n}}$`));

export const repairTermSchema = z.strictObject({ keyId, epoch, target: z.literal(PARTIES) });
export const repairStartSchema = z.strictObject({
  keyId,
  fromEpoch: epoch,
  toEpoch: epoch,
  messages: z.array(z.strictObject({ from: z.literal(PARTIES), message: z.string() })).length(THRESHOLD),
});

/** What a helper tells the signer that has lost its share. */
const wordSchema = z.strictObject({
  public_key: hexBytes(65),
  chain_code: hexBytes(32),
  owner_key: z.string().nullable(),
  /** Secret: with that of the other helper it is the share. */
  term: z.base64(),
});
type Word = z.infer<typeof wordSchema>;

/** One repair: what both helpers and the target must have been asked alike. */
interface Repair {
  session: string;
  keyId: string;
  epoch: number;
  target: Party;
}

/** A helper's part of the share that another signer has lost, sealed to that signer. */
export async function giveTerm(
  context: SignerContext,
  { session, body }: { session: string; body: z.infer<typeof repairTermSchema> },
): Promise<{ message: string }> {
  const { keyId, epoch, target } = body;
  if (target === context.party) throw new Refusal('malformed', 'target must be another signer');
  if (context.store.stateOf(keyId) !== 'active' || !context.store.activeEpochs(keyId).includes(epoch)) {
    throw new Refusal('other_epoch', `signer ${context.party} does not use epoch ${epoch} of key ${keyId}`);
  }
  const share = parseShare(context.engine, { keyId, stored: context.store.getShare(keyId, epoch) });
  const repair = { session, ...body };
  try {
    const term = share.repairTerm(repairId(repair), target, Uint8Array.from(othersThan(target)));
    const word: Word = {
      public_key: bytesToHex(share.publicKey),
      chain_code: bytesToHex(share.chainCode),
      owner_key: context.store.ownerKeyOf(keyId) ?? null,
      term: Buffer.from(term).toString('base64'),
    };
    const message = await sealMessage(
      { own: context.identity, receiver: peerOf(context, target) },
      { context: place(repair, { from: context.party }), body: Buffer.from(JSON.stringify(word)) },
    );
    context.log.warn({ keyId, epoch, target }, 'helped another signer to its lost share');
    return { message };
  } finally {
    share.free();
  }
}

/**
 * Puts the lost share together again, and begins this signer's part of the complete refresh that makes it one of its
 * own: what the helpers gave is never stored.
 */
export async function startRepair(
  context: SignerContext,
  p: { session: string; role: Role; body: z.infer<typeof repairStartSchema> },
): Promise<Outbound> {
  const { session, role, body } = p;
  const { keyId, fromEpoch, toEpoch } = body;
  refuseUnlessLost(context, { keyId, fromEpoch });
  const repair = { session, keyId, epoch: fromEpoch, target: context.party };
  const words = await openWords(context, { repair, messages: body.messages });
  const [[, first], [, second]] = words as [[Party, Word], [Party, Word]];
  for (const name of ['public_key', 'chain_code', 'owner_key'] as const) {
    if (first[name] !== second[name]) {
      throw new Refusal('bad_message', `the two others do not say the same ${name} of key ${keyId}`);
    }
  }
  refuseOtherKey(context, { keyId, word: first });
  const share = assemble(context, { repair, words });
  if (bytesToHex(share.publicKey) !== first.public_key || bytesToHex(share.chainCode) !== first.chain_code) {
    share.free();
    throw new Refusal('protocol_fault', `what the two others gave is not a share of key ${keyId}`);
  }
  const run = { keyId, fromEpoch, toEpoch, complete: true };
  return openRefresh(context, { session, role, run, share, repaired: { ownerKey: first.owner_key } });
}

/**
 * A share that is here and opens is not lost. A key that was given up after its share was stored stays given up; one that
 * was given up before cannot be in use elsewhere, unless this signer had it in an earlier life and somebody used the id
 * since, to keep it from being repaired.
 */
function refuseUnlessLost(context: SignerContext, p: { keyId: string; fromEpoch: number }): void {
  if (!context.store.canTakeUp(p.keyId)) {
    throw new Refusal('key_exists', `signer ${context.party} is making key ${p.keyId}, or gave it up: it stays so`);
  }
  const [newest = 0] = context.store.activeEpochs(p.keyId);
  if (newest < p.fromEpoch || !opens(context, { keyId: p.keyId, epoch: newest })) return;
  throw new Refusal('other_epoch', `signer ${context.party} has epoch ${newest} of key ${p.keyId}, nothing is lost`);
}

/** Whatever two others say: where this signer has the key, it is that one. */
function refuseOtherKey(context: SignerContext, { keyId, word }: { keyId: string; word: Word }): void {
  const own = context.store.epochFacts(keyId);
  if (!own) return;
  const same = bytesToHex(own.publicKey) === word.public_key && bytesToHex(own.chainCode) === word.chain_code;
  if (!same) throw new Refusal('bad_message', `signer ${context.party} knows key ${keyId} by another public key`);
}

async function openWords(
  context: SignerContext,
  p: { repair: Repair; messages: z.infer<typeof repairStartSchema>['messages'] },
): Promise<[Party, Word][]> {
  const opened = othersThan(context.party).map(async (from): Promise<[Party, Word]> => {
    const message = p.messages.find((m) => m.from === from)?.message ?? '';
    const body = await openMessage(
      { own: context.identity, sender: peerOf(context, from) },
      { context: place(p.repair, { from }), message },
    );
    const word = wordSchema.safeParse(parseJson(body));
    if (word.success) return [from, word.data];
    throw new Refusal('bad_message', `what signer ${from} says of key ${p.repair.keyId} has not the right shape`, {
      culprit: from,
    });
  });
  return Promise.all(opened);
}

function assemble(context: SignerContext, p: { repair: Repair; words: [Party, Word][] }): KeyShare {
  const { keyId, session } = p.repair;
  try {
    const terms = p.words.flatMap(([from, { term }]) =>
      blaming(from, () => decodeBatch(Buffer.from(term, 'base64'))).map((message) => ({ ...message, from })),
    );
    return context.engine.KeyShare.assemble(repairId(p.repair), context.party, encodeBatch(terms));
  } catch (error) {
    rethrowEngineFault(context, { keyId, session, error });
  }
}

/** Bound to everything that the helpers were asked, so that no two questions have the same answer hidden by the same mask. */
function repairId({ session, keyId, epoch, target }: Repair): Uint8Array {
  return createHash('sha256')
    .update(JSON.stringify(['purser-repair', session, keyId, epoch, target]))
    .digest();
}

function place(repair: Repair, { from }: { from: Party }): MessageContext {
  const { session, keyId, epoch, target } = repair;
  const subject = `repair of key ${keyId}, epoch ${epoch}`;
  return { session, protocol: 'repair', round: 1, from, to: target, subject };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    return undefined;
  }
}
