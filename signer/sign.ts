import { bytesToHex, type Hex, hexToBytes } from 'viem';
import { z } from 'zod';
import { ReceiptError, verifyReceipt } from '../shared/receipt.ts';
import { checkIntent, checkWallet } from './check-intent.ts';
import { peerOf, type SignerContext } from './context.ts';
import { digestOf, payloadSchema } from './digest/payload.ts';
import { decodeBatch, type SignSession as EngineSession, encodeBatch } from './engine/engine.ts';
import { openMessage, sealMessage } from './envelope.ts';
import { blaming, refuseBanned, rethrowEngineFault } from './fault.ts';
import { PARTIES, type Party } from './parties.ts';
import { Refusal } from './refusal.ts';
import type { Session } from './sessions.ts';
import type { SigningLogEntry } from './store/signing-log.ts';

/**
 * Three rounds of the protocol in two round trips: the initiator sends round 1; the joiner answers rounds 1 and 2; the
 * initiator answers rounds 2 and 3; with those the joiner has the signature. `hop` counts these messages.
 */
type Hop = 1 | 2 | 3;

const requestShape = {
  keyId: z.string().min(1).max(128),
  path: z.string().regex(/^m\/44\/60\/0\/0\/(0|[1-9]\d{0,8})$/, 'must be m/44/60/0/0/<index>'),
  address: z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'must be a 20-byte address'),
  payload: payloadSchema,
  receipt: z.string().max(8000),
  counterparty: z.literal(PARTIES),
};
export const signStartSchema = z.strictObject(requestShape);
export const signJoinSchema = z.strictObject({ ...requestShape, message: z.string() });
export const signStepSchema = z.strictObject({ message: z.string() });

interface SignSession extends Session {
  role: 'initiator' | 'joiner';
  engine: EngineSession;
  /** What will be logged when this party releases its part. */
  entry: Omit<SigningLogEntry, 'signature'>;
}

/** Checks everything, answers the message of hop 1. */
export async function startSign(
  context: SignerContext,
  { session, body }: { session: string; body: z.infer<typeof signStartSchema> },
): Promise<{ message: string }> {
  context.sessions.open({ id: session, kind: 'sign' });
  const state = await openSession(context, { session, body, role: 'initiator' });
  return run(context, { session, state }, async () => {
    const message = await send(context, { state, hop: 1, batches: [state.engine.start()] });
    context.sessions.park(session, state);
    return { message };
  });
}

/** Checks everything again, independently; takes the message of hop 1, answers that of hop 2. */
export async function joinSign(
  context: SignerContext,
  { session, body }: { session: string; body: z.infer<typeof signJoinSchema> },
): Promise<{ message: string }> {
  context.sessions.open({ id: session, kind: 'sign' });
  const state = await openSession(context, { session, body, role: 'joiner' });
  return run(context, { session, state }, async () => {
    const [first] = await receive(context, { state, hop: 1, message: body.message });
    const batches = [state.engine.start(), stepEngine(state, first!)];
    const message = await send(context, { state, hop: 2, batches });
    context.sessions.park(session, state);
    return { message };
  });
}

/** The last request to either party. What it signed is on disk before its part, or the signature, leaves. */
export async function stepSign(
  context: SignerContext,
  { session, body }: { session: string; body: z.infer<typeof signStepSchema> },
): Promise<{ message: string } | { signature: Hex; digest: Hex }> {
  const state = context.sessions.take(session, 'sign') as SignSession;
  return run(context, { session, state }, async () => {
    const answer =
      state.role === 'initiator' ? await release(context, { state, body }) : await conclude(context, { state, body });
    context.sessions.park(session, state);
    context.sessions.end(session);
    return answer;
  });
}

/** Initiator: with rounds 2 and 3 it gives its part away, and is done. */
async function release(
  context: SignerContext,
  { state, body }: { state: SignSession; body: z.infer<typeof signStepSchema> },
): Promise<{ message: string }> {
  const [first, second] = await receive(context, { state, hop: 2, message: body.message });
  const batches = [stepEngine(state, first!), stepEngine(state, second!)];
  context.store.appendSigningLog({ ...state.entry, signature: null });
  return { message: await send(context, { state, hop: 3, batches }) };
}

/** Joiner: completes the signature. Its own round 3 would only tell the initiator the same. */
async function conclude(
  context: SignerContext,
  { state, body }: { state: SignSession; body: z.infer<typeof signStepSchema> },
): Promise<{ signature: Hex; digest: Hex }> {
  const [second, third] = await receive(context, { state, hop: 3, message: body.message });
  stepEngine(state, second!);
  stepEngine(state, third!);
  const signature = state.engine.takeSignature();
  context.store.appendSigningLog({ ...state.entry, signature });
  return { signature: bytesToHex(signature), digest: bytesToHex(state.entry.digest) };
}

/** Everything that this signer checks by itself before it takes part. */
async function openSession(
  context: SignerContext,
  p: { session: string; body: z.infer<typeof signStartSchema>; role: SignSession['role'] },
): Promise<SignSession> {
  const { keyId, path, address, payload, counterparty } = p.body;
  const receipt = await verifyReceipt(context.policyKey, { receipt: p.body.receipt, now: context.now() }).catch(
    (error) => {
      throw error instanceof ReceiptError ? new Refusal(error.reason, error.message, { cause: error }) : error;
    },
  );
  checkWallet(receipt.wallet, { keyId, path, address });
  checkIntent(receipt.intent, { payload, wallet: receipt.wallet.address });
  if (counterparty === context.party) throw new Refusal('malformed', 'counterparty must be another signer');
  refuseBanned(context, { keyId, party: counterparty });
  const { share, epoch } = context.shares.child({ keyId, path });
  if (share.address.toLowerCase() !== address.toLowerCase()) {
    throw new Refusal('intent_mismatch', `wallet address is ${address}, key ${keyId} at ${path} has ${share.address}`);
  }
  const digest = hexToBytes(digestOf(payload));
  const engine = new context.engine.SignSession(
    share,
    Buffer.from(p.session, 'hex'),
    digest,
    Uint8Array.of(counterparty),
  );
  const entry = {
    sessionId: p.session,
    counterparty,
    keyId,
    epoch,
    path,
    address: share.address,
    transactionId: receipt.transaction_id,
    decisionId: receipt.decision_id,
    receipt: p.body.receipt,
    payload: JSON.stringify(payload),
    digest,
  };
  return { role: p.role, engine, entry, close: () => engine.free() };
}

/** Any error ends the run. */
async function run<T>(
  context: SignerContext,
  p: { session: string; state: SignSession },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    p.state.close();
    rethrowEngineFault(context, { keyId: p.state.entry.keyId, session: p.session, error });
  }
}

/** What came is the counterparty's, signed: there is nobody else to blame. */
function stepEngine(state: SignSession, batch: Uint8Array): Uint8Array {
  return blaming(state.entry.counterparty as Party, () => state.engine.step(batch));
}

/** What both of a pair must have been asked for. */
function subjectOf({ keyId, epoch, path, transactionId, digest }: SignSession['entry']): string {
  return `key ${keyId} epoch ${epoch} path ${path} transaction ${transactionId} digest ${bytesToHex(digest)}`;
}

/** Each batch of a signing round holds exactly one message. */
async function send(
  context: SignerContext,
  p: { state: SignSession; hop: Hop; batches: Uint8Array[] },
): Promise<string> {
  const { sessionId: session, counterparty } = p.state.entry;
  const to = counterparty as Party;
  return sealMessage(
    { own: context.identity, receiver: peerOf(context, to) },
    {
      context: { session, protocol: 'sign', round: p.hop, from: context.party, to, subject: subjectOf(p.state.entry) },
      body: encodeBatch(p.batches.flatMap(decodeBatch)),
    },
  );
}

/** The batches of a hop, one a round: one in the first hop, two in the others. */
async function receive(
  context: SignerContext,
  p: { state: SignSession; hop: Hop; message: string },
): Promise<Uint8Array[]> {
  const { sessionId: session, counterparty } = p.state.entry;
  const from = counterparty as Party;
  const body = await openMessage(
    { own: context.identity, sender: peerOf(context, from) },
    {
      context: { session, protocol: 'sign', round: p.hop, from, to: context.party, subject: subjectOf(p.state.entry) },
      message: p.message,
    },
  );
  refuseBanned(context, { keyId: p.state.entry.keyId, party: from });
  const messages = blaming(from, () => decodeBatch(body));
  const expected = p.hop === 1 ? 1 : 2;
  if (messages.length !== expected) {
    throw new Refusal('bad_message', `hop ${p.hop} holds ${messages.length} messages, expected ${expected}`, {
      culprit: from,
    });
  }
  return messages.map((message) => encodeBatch([{ ...message, from }]));
}
