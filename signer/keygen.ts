import { bytesToHex } from 'viem';
import { z } from 'zod';
import { attestStored, checkStored } from './attestation.ts';
import { peerOf, type SignerContext } from './context.ts';
import { decodeBatch, encodeBatch, type Message } from './engine/engine.ts';
import { type ShareWorker, startShareWorker } from './engine/worker.ts';
import { openMessage, sealMessage } from './envelope.ts';
import { blaming, rethrowEngineFault } from './fault.ts';
import { KEYGEN_ROUNDS, othersThan, PARTIES, type Party, THRESHOLD } from './parties.ts';
import { Refusal } from './refusal.ts';
import type { Session } from './sessions.ts';
import { parseShare } from './shares.ts';

const keyId = z.string().regex(/^[A-Za-z0-9_-]{1,128}$/, 'must be 1 to 128 characters of A-Z a-z 0-9 _ -');
const party = z.literal(PARTIES);
const hexBytes = (n: number) => z.string().regex(new RegExp(`^0x[0-9a-f]{${2 * n}}$`));

export const keygenStartSchema = z.strictObject({ keyId });
export const keygenStepSchema = z.strictObject({
  round: z.int().min(1).max(KEYGEN_ROUNDS),
  messages: z.array(z.strictObject({ from: party, message: z.string() })).length(THRESHOLD),
});
export const keygenCommitSchema = z.strictObject({
  keyId,
  publicKey: hexBytes(65),
  chainCode: hexBytes(32),
  attestations: z.array(z.strictObject({ party, attestation: z.string().max(2000) })).length(PARTIES.length),
});

interface Outbound {
  messages: { to: Party; message: string }[];
}
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

/** Takes the key id and answers the messages of round 1. */
export async function startKeygen(
  context: SignerContext,
  p: { session: string; body: z.infer<typeof keygenStartSchema> },
): Promise<Outbound> {
  const { session, body } = p;
  context.sessions.open({ id: session, kind: 'keygen' });
  context.store.reserveKey({ keyId: body.keyId, sessionId: session });
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
    const answer = await outbound(context, { session, keyId: body.keyId, round: 1, batch: await worker.start() });
    context.sessions.park(session, state);
    return answer;
  });
}

/** Takes the messages of one round; answers those of the next, or that the share is stored. */
export async function stepKeygen(
  context: SignerContext,
  p: { session: string; body: z.infer<typeof keygenStepSchema> },
): Promise<Outbound | Stored> {
  const { session, body } = p;
  const state = context.sessions.take(session, 'keygen') as KeygenSession;
  return run(context, { session, state }, async () => {
    if (state.round !== body.round) {
      throw new Refusal('bad_message', `round ${body.round} was sent, round ${state.round} is awaited`);
    }
    const batch = await state.worker.step(await inbound(context, { ...p, keyId: state.keyId }));
    if (body.round === KEYGEN_ROUNDS) return finish(context, { session, state });
    state.round += 1;
    const answer = await outbound(context, { session, keyId: state.keyId, round: state.round, batch });
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
    const claim = { key_id: keyId, session: p.session, party: other, public_key: publicKey, chain_code: chainCode };
    await checkStored(peerOf(context, other), { attestation, claim });
  }
  if (context.store.stateOf(keyId) === 'stored') {
    context.store.activateKey(keyId);
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

/** Seals one envelope for each peer: what is meant for it, and the broadcasts. */
async function outbound(
  context: SignerContext,
  p: { session: string; keyId: string; round: number; batch: Uint8Array },
): Promise<Outbound> {
  const all = decodeBatch(p.batch);
  const messages = othersThan(context.party).map(async (to) => ({
    to,
    message: await sealMessage(
      { own: context.identity, receiver: peerOf(context, to) },
      {
        context: {
          session: p.session,
          protocol: 'keygen',
          round: p.round,
          from: context.party,
          to,
          subject: `key ${p.keyId}`,
        },
        body: encodeBatch(all.filter((m) => m.to === to || m.to === 0)),
      },
    ),
  }));
  return { messages: await Promise.all(messages) };
}

/** Opens the envelopes of both peers into one batch, the senders being those whose signatures verified. */
async function inbound(
  context: SignerContext,
  { session, keyId, body }: { session: string; keyId: string; body: z.infer<typeof keygenStepSchema> },
): Promise<Uint8Array> {
  const messages = othersThan(context.party).map(async (from): Promise<Message[]> => {
    const sealed = body.messages.find((m) => m.from === from);
    if (!sealed) throw new Refusal('bad_message', `the message of signer ${from} for round ${body.round} is missing`);
    const opened = await openMessage(
      { own: context.identity, sender: peerOf(context, from) },
      {
        context: {
          session,
          protocol: 'keygen',
          round: body.round,
          from,
          to: context.party,
          subject: `key ${keyId}`,
        },
        message: sealed.message,
      },
    );
    return blaming(from, () => decodeBatch(opened)).map((m) => ({ ...m, from }));
  });
  return encodeBatch((await Promise.all(messages)).flat());
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
  const claim = {
    key_id: keyId,
    session: p.session,
    party: context.party,
    public_key: publicKey,
    chain_code: chainCode,
  };
  const attestation = await attestStored(context.identity, claim);
  // The run is over; the key stays "stored" until all three say so. An abort by session id still gives it up.
  context.sessions.park(p.session, { close: () => undefined });
  context.sessions.end(p.session);
  return { publicKey, chainCode, attestation };
}
