import { bytesToHex, type Hex, hexToBytes } from 'viem';
import { z } from 'zod';
import { noteInLog } from '../shared/log-context.ts';
import { walletAddress, walletName } from './address.ts';
import { checkRequest, signRequestShape } from './check-request.ts';
import type { SignerContext } from './context.ts';
import { chainOf, digestOf } from './digest/payload.ts';
import type { SignSession as EngineSession } from './engine/engine.ts';
import { blaming, refuseBanned, rethrowEngineFault } from './fault.ts';
import { refuseFrozen } from './freeze.ts';
import type { WalletOwner } from './freeze-book.ts';
import { openHop, type SignRun, sealHop } from './hop.ts';
import { holdLimit, type LimitHold } from './limits.ts';
import { findRecorded } from './recorded-signature.ts';
import type { SlotUse } from './records.ts';
import { Refusal } from './refusal.ts';
import type { Session } from './sessions.ts';
import type { SigningLogEntry } from './store/signing-log.ts';

export const signStartSchema = z.strictObject(signRequestShape);
export const signJoinSchema = z.strictObject({ ...signRequestShape, epoch: z.int().min(1), message: z.string() });
export const signStepSchema = z.strictObject({ message: z.string() });
export const signLearnSchema = z.strictObject({
  address: signRequestShape.address,
  digest: z.string().regex(/^0x[0-9a-f]{64}$/),
  signature: z.string().regex(/^0x[0-9a-f]{130}$/),
});

/** What came out, as the signer that completed it tells it: r | s (low) | recovery id, 65 bytes. */
export interface SignedAnswer {
  signature: Hex;
  digest: Hex;
}
/** A message for the other of the pair; the initiator's first one names the epoch of the key that it signs with. */
export interface StartAnswer {
  message: string;
  epoch: number;
}
export interface RelayAnswer {
  message: string;
}

interface SignSession extends Session {
  role: 'initiator' | 'joiner';
  run: SignRun;
  engine: EngineSession;
  /** Its place in the limits of the account's owner. */
  limit: LimitHold;
  /** What will be recorded and logged when this party releases its part. */
  use: SlotUse;
  /** Whose wallet it is. */
  owner: WalletOwner;
  entry: Omit<SigningLogEntry, 'signature'>;
}

type Body = z.infer<typeof signStartSchema>;

/** Checks everything; answers the message of hop 1, or the signature where it was made before. */
export async function startSign(
  context: SignerContext,
  { session, body }: { session: string; body: Body },
): Promise<StartAnswer | SignedAnswer> {
  context.sessions.open({ id: session, kind: 'sign' });
  const { use, owner } = await checkRequest(context, body);
  const recorded = await giveRecorded(context, { session, body });
  if (recorded) return recorded;
  refuseFrozen(context, owner);
  const [epoch] = context.store.activeEpochs(body.keyId);
  if (epoch === undefined) throw new Refusal('unknown_key', `signer ${context.party} has no share of ${body.keyId}`);
  const state = openSession(context, { session, body, use, owner, epoch, role: 'initiator' });
  return work(context, state, async () => {
    const message = await sealHop(context, {
      ...state,
      hop: 1,
      batches: [state.engine.start()],
      news: state.limit.tell(),
    });
    context.sessions.park(session, state);
    return { message, epoch };
  });
}

/** Checks everything again, independently; takes the message of hop 1, answers that of hop 2, or the signature. */
export async function joinSign(
  context: SignerContext,
  { session, body }: { session: string; body: z.infer<typeof signJoinSchema> },
): Promise<RelayAnswer | SignedAnswer> {
  const { epoch, message, ...request } = body;
  context.sessions.open({ id: session, kind: 'sign' });
  const { use, owner } = await checkRequest(context, request);
  const recorded = await giveRecorded(context, { session, body: request });
  if (recorded) return recorded;
  refuseFrozen(context, owner);
  const held = context.store.activeEpochs(request.keyId);
  if (!held.includes(epoch)) {
    const { keyId } = request;
    throw new Refusal('other_epoch', `signer ${context.party} holds key ${keyId} at epoch ${held}, not ${epoch}`);
  }
  const state = openSession(context, { session, body: request, use, owner, epoch, role: 'joiner' });
  return work(context, state, async () => {
    const { batches: heard, news } = await openHop(context, { ...state, hop: 1, message });
    await state.limit.hear(news);
    const batches = [state.engine.start(), stepEngine(context, state, heard[0]!)];
    const answer = await sealHop(context, { ...state, hop: 2, batches, news: state.limit.tell() });
    context.sessions.park(session, state);
    return { message: answer };
  });
}

/** The last request to either party. What it signed is on disk before its part, or the signature, leaves. */
export async function stepSign(
  context: SignerContext,
  { session, body }: { session: string; body: z.infer<typeof signStepSchema> },
): Promise<RelayAnswer | SignedAnswer> {
  const state = context.sessions.take(session, 'sign') as SignSession;
  noteInLog({ transaction_id: state.entry.transactionId });
  return work(context, state, async () => {
    const answer = await (state.role === 'initiator' ? release : conclude)(context, { state, ...body });
    context.sessions.park(session, state);
    context.sessions.end(session);
    return answer;
  });
}

/** Tells the initiator, which cannot see it, what came out; nobody waits for this, and nothing but a repeat needs it. */
export async function learnSignature(
  context: SignerContext,
  { body }: { body: z.infer<typeof signLearnSchema> },
): Promise<object> {
  const { address, digest, signature } = body;
  context.store.learnSignature({
    address,
    digest: hexToBytes(digest as Hex),
    signature: hexToBytes(signature as Hex),
  });
  return {};
}

interface Step {
  state: SignSession;
  message: string;
}

/** Initiator: with rounds 2 and 3 it gives its part away, and is done. */
async function release(context: SignerContext, { state, message }: Step): Promise<RelayAnswer> {
  const { batches: heard, news } = await openHop(context, { ...state, hop: 2, message });
  await state.limit.hear(news);
  const batches = heard.map((batch) => stepEngine(context, state, batch));
  record(context, state, null);
  return { message: await sealHop(context, { ...state, hop: 3, batches }) };
}

/** Joiner: completes the signature. Its own round 3 would only tell the initiator the same. */
async function conclude(context: SignerContext, { state, message }: Step): Promise<SignedAnswer> {
  const { batches } = await openHop(context, { ...state, hop: 3, message });
  for (const batch of batches) stepEngine(context, state, batch);
  const signature = state.engine.takeSignature();
  record(context, state, signature);
  return { signature: bytesToHex(signature), digest: bytesToHex(state.entry.digest) };
}

/**
 * Binds the slot, counts what it may cost, and logs, as one: durable on return. What another run has bound meanwhile counts.
 * @throws Refusal `slot_taken`, or `frozen` where that came meanwhile; then nothing may leave
 */
function record(context: SignerContext, { use, owner, entry, limit }: SignSession, signature: Uint8Array | null): void {
  const { keyId, address, digest } = entry;
  refuseFrozen(context, owner);
  context.store.transaction(() => {
    context.store.bindUse(use);
    limit.settle();
    context.store.noteSignature({ keyId, address, digest, signature });
    context.store.appendSigningLog({ ...entry, signature });
  });
}

/** The same request again gets the same signature: there is nothing to be computed. */
async function giveRecorded(
  context: SignerContext,
  { session, body: { address, payload } }: { session: string; body: Body },
): Promise<SignedAnswer | undefined> {
  const digest = digestOf(payload, address);
  const signature = await findRecorded(context.store, { address, digest, chain: chainOf(payload) });
  if (!signature) return undefined;
  context.sessions.end(session);
  return { signature, digest };
}

function openSession(
  context: SignerContext,
  p: { session: string; body: Body; use: SlotUse; owner: WalletOwner; epoch: number; role: SignSession['role'] },
): SignSession {
  const { use, owner, epoch, role } = p;
  const { keyId, path, address, payload, receipt, counterparty } = p.body;
  const share = context.shares.child({ keyId, path, epoch });
  const own = walletAddress({ publicKey: share.publicKey, chain: chainOf(payload) });
  if (walletName(own) !== walletName(address)) {
    throw new Refusal('intent_mismatch', `wallet address is ${address}, key ${keyId} at ${path} has ${own}`);
  }
  const digest = digestOf(payload, own);
  const engine = new context.engine.SignSession(
    share,
    Buffer.from(p.session, 'hex'),
    hexToBytes(digest),
    Uint8Array.of(counterparty),
  );
  const limit = takeLimit(context, { ...p, engine });
  const entry = {
    sessionId: p.session,
    ...{ counterparty, keyId, epoch, path },
    address: own,
    transactionId: use.transactionId,
    decisionId: use.decisionId,
    receipt,
    payload: JSON.stringify(payload),
    digest: hexToBytes(digest),
  };
  const run = { session: p.session, keyId, counterparty, subject: subjectOf(entry) };
  const close = () => {
    engine.free();
    limit.close();
  };
  return { role, run, engine, limit, use, owner, entry, close };
}

/** @throws Refusal `limit_exceeded`, `busy` */
function takeLimit(
  context: SignerContext,
  p: { session: string; body: Body; use: SlotUse; role: SignSession['role']; engine: EngineSession },
): LimitHold {
  const { session, role } = p;
  const { keyId, address: wallet, payload, counterparty } = p.body;
  try {
    return holdLimit(context, { session, role, keyId, wallet, slot: p.use.slot, payload, counterparty });
  } catch (error) {
    p.engine.free();
    throw error;
  }
}

/** What both of a pair must have been asked for. */
function subjectOf({ keyId, epoch, path, transactionId, digest }: SignSession['entry']): string {
  return `key ${keyId} epoch ${epoch} path ${path} transaction ${transactionId} digest ${bytesToHex(digest)}`;
}

/** What came is the counterparty's, signed: there is nobody else to blame. Nothing is awaited between ban and engine. */
function stepEngine(context: SignerContext, state: SignSession, batch: Uint8Array): Uint8Array {
  refuseBanned(context, { keyId: state.run.keyId, party: state.run.counterparty });
  return blaming(state.run.counterparty, () => state.engine.step(batch));
}

/** Any error ends the run. */
async function work<T>(context: SignerContext, state: SignSession, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    state.close();
    rethrowEngineFault(context, { ...state.run, error });
  }
}
