import { bytesToHex } from 'viem';
import { z } from 'zod';
import { attestShare, checkAttestation, type ShareClaim } from './attestation.ts';
import { peerOf, type SignerContext } from './context.ts';
import { type ShareWorker, startShareWorker } from './engine/worker.ts';
import { rethrowEngineFault } from './fault.ts';
import { ownerKeySchema } from './owner-key.ts';
import { KEYGEN_ROUNDS, othersThan, PARTIES, type Party, THRESHOLD } from './parties.ts';
import { Refusal } from './refusal.ts';
import { type Outbound, openRound, type roundSchema, sealRound } from './rounds.ts';
import type { Session } from './sessions.ts';
import { parseShare } from './shares.ts';
import { FIRST_EPOCH } from './store/shares.ts';

const keyId = z.string().regex(/^[A-Za-z0-9_-]{1,128}$/, 'must be 1 to 128 characters of A-Z a-z 0-9 _ -');
const party = z.literal(PARTIES);
const hexBytes = (n: number) => z.string().regex(new RegExp(`^0x[0-9a-f]{${2 * n}}$`));

/** The owner's key is who sets limits of the new key; all three must be told the same. */
export const keygenStartSchema = z.strictObject({ keyId, ownerKey: ownerKeySchema.nullable().default(null) });
export const keygenCommitSchema = z.strictObject({
  keyId,
  publicKey: hexBytes(65),
  chainCode: hexBytes(32),
  attestations: z.array(z.strictObject({ party, attestation: z.string().max(2000) })).length(PARTIES.length),
});

interface Stored {
  publicKey: string;
  chainCode: string;
  attestation: string;
}

interface KeygenSession extends Session {
  keyId: string;
  /** The round whose messages are awaited. */
  round: number;
  worker: ShareWorker;
}

/** Where a message belongs, besides its round. */
const place = (session: string, { keyId }: { keyId: string }) =>
  ({ session, protocol: 'keygen', subject: `key ${keyId}` }) as const;

/** Takes the key id and answers the messages of round 1. */
export async function startKeygen(
  context: SignerContext,
  p: { session: string; body: z.infer<typeof keygenStartSchema> },
): Promise<Outbound> {
  const { session, body } = p;
  context.sessions.open({ id: session, kind: 'keygen' });
  context.store.reserveKey({ keyId: body.keyId, sessionId: session, ownerKey: body.ownerKey });
  const worker = startShareWorker({
    kind: 'keygen',
    build: context.engineChoice,
    party: context.party,
    threshold: THRESHOLD,
    parties: PARTIES.length,
    sessionId: Buffer.from(session, 'hex'),
  });
  const state: KeygenSession = {
    keyId: body.keyId,
    round: 1,
    worker,
    close() {
      void worker.close();
      context.store.abandonKey({ sessionId: session });
    },
  };
  return run(context, { session, state }, async () => {
    const answer = await sealRound(context, { ...place(session, body), round: 1, batch: await worker.start() });
    context.sessions.park(session, state);
    return answer;
  });
}

/** Takes the messages of one round; answers those of the next, or that the share is stored. */
export async function stepKeygen(
  context: SignerContext,
  p: { session: string; body: z.infer<typeof roundSchema> },
): Promise<Outbound | Stored> {
  const { session, body } = p;
  const state = context.sessions.take(session, 'keygen') as KeygenSession;
  return run(context, { session, state }, async () => {
    if (state.round !== body.round) {
      throw new Refusal('bad_message', `round ${body.round} was sent, round ${state.round} is awaited`);
    }
    const batch = await state.worker.step(await openRound(context, { ...place(session, state), ...body }));
    if (body.round === KEYGEN_ROUNDS) return finish(context, { session, state });
    state.round += 1;
    const answer = await sealRound(context, { ...place(session, state), round: state.round, batch });
    context.sessions.park(session, state);
    return answer;
  });
}

/**
 * Makes a key usable, once all three have attested that they stored it: the coordinator alone cannot say so. Repeating
 * it changes nothing.
 */
export async function commitKeygen(
  context: SignerContext,
  p: { session: string; body: z.infer<typeof keygenCommitSchema> },
): Promise<{ ready: true }> {
  const { keyId, publicKey, chainCode, attestations } = p.body;
  const state = context.store.stateOf(keyId);
  if (state !== 'stored' && state !== 'active') {
    throw new Refusal('unknown_key', `signer ${context.party} holds no stored key ${keyId}`);
  }
  const own = context.store.getShare(keyId);
  own.share.fill(0);
  if (bytesToHex(own.publicKey) !== publicKey || bytesToHex(own.chainCode) !== chainCode) {
    throw new Refusal('bad_message', `signer ${context.party} stored key ${keyId} with another public key`);
  }
  for (const other of othersThan(context.party)) {
    const attestation = attestations.find((a) => a.party === other)?.attestation ?? '';
    const claim = storedClaim(context, { keyId, session: p.session, party: other, publicKey, chainCode });
    await checkAttestation(peerOf(context, other), { attestation, claim });
  }
  if (context.store.stateOf(keyId) === 'stored') {
    context.store.activateKey(keyId);
    context.backup.changed(keyId);
    context.log.info({ keyId }, 'a new key is ready');
  }
  return { ready: true };
}

/** Any error ends the run and gives the key id up. */
async function run<T>(
  context: SignerContext,
  p: { session: string; state: KeygenSession },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    p.state.close();
    rethrowEngineFault(context, { keyId: p.state.keyId, session: p.session, error });
  }
}

/** Stores the share, reads it back, and says so under this signer's name. */
async function finish(context: SignerContext, p: { session: string; state: KeygenSession }): Promise<Stored> {
  const { keyId, worker } = p.state;
  const bytes = await worker.takeShare();
  const fresh = context.engine.KeyShare.fromBytes(bytes);
  context.store.putShare({ keyId, share: bytes, publicKey: fresh.publicKey, chainCode: fresh.chainCode });
  bytes.fill(0);
  fresh.free();
  const readBack = parseShare(context.engine, { keyId, stored: context.store.getShare(keyId) });
  const publicKey = bytesToHex(readBack.publicKey);
  const chainCode = bytesToHex(readBack.chainCode);
  readBack.free();
  await context.backup.keep({ keyId, epoch: FIRST_EPOCH });
  const claim = storedClaim(context, { keyId, session: p.session, party: context.party, publicKey, chainCode });
  const attestation = await attestShare(context.identity, claim);
  // The run is over; the key stays "stored" until all three say so. An abort by session id still gives it up.
  context.sessions.park(p.session, { close: () => undefined });
  context.sessions.end(p.session);
  return { publicKey, chainCode, attestation };
}

function storedClaim(
  context: SignerContext,
  p: { keyId: string; session: string; party: Party; publicKey: string; chainCode: string },
): ShareClaim {
  const { keyId, session, party, publicKey, chainCode } = p;
  const run = { key_id: keyId, epoch: FIRST_EPOCH, session, party };
  const owner_key = context.store.ownerKeyOf(keyId) ?? null;
  return { state: 'stored', ...run, public_key: publicKey, chain_code: chainCode, owner_key };
}
