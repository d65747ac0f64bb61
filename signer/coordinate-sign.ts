import type { Hex } from 'viem';
import type { SignPayload } from '../shared/domain/receipt.ts';
import { NoAnswer, RefusedBySigner, type SignerPeer, type SignerTransport } from './call.ts';
import { chainOf, digestOf } from './digest/payload.ts';
import { SignerFault } from './errors.ts';
import { newSession } from './new-session.ts';
import { judgeSignature } from './recorded-signature.ts';
import type { RefusalCode } from './refusal.ts';
import type { RelayAnswer, SignedAnswer, StartAnswer } from './sign.ts';

/** One signature over one whole transaction or authorisation, or one input of a Bitcoin transaction. JSON-safe. */
export interface SignRequest {
  /** Id of the account's key. */
  keyId: string;
  /** Child path of the wallet, for example `m/44/60/0/0/7`; its coin is that of the payload's chain. */
  path: string;
  /** Address of the wallet; the signature must recover to it. */
  address: string;
  payload: SignPayload;
  /** Compact JWS by the policy step; see shared/receipt.ts. */
  receipt: string;
}

export interface Signature {
  /** r | s | v: 65 bytes, low s, v 27 or 28; on every chain. */
  signature: Hex;
  digest: Hex;
}

/** Refusals after which the other of the pair is asked to begin. */
const OTHER_BEGINS: ReadonlySet<RefusalCode> = new Set(['other_epoch', 'frozen']);

interface Run {
  /** Who begins, and who joins. */
  pair: readonly [SignerPeer, SignerPeer];
  request: SignRequest;
  timeoutMs: number;
  signal: AbortSignal;
}

/**
 * Runs one signature between two signers: four requests, each carrying what the other side said; fewer where one of them
 * knows the signature from before. During a refresh one of them may have the newer epoch of the key alone: then the other
 * one begins, whose newest epoch both have. Where it is frozen, the other one is asked too: what was signed before is given
 * again, and it may be the one that has it.
 * @throws RefusedBySigner, NoAnswer, SignerFault
 */
export async function coordinateSign(transport: SignerTransport, p: Run): Promise<Signature> {
  try {
    return await runSession(transport, p);
  } catch (error) {
    if (!(error instanceof RefusedBySigner && OTHER_BEGINS.has(error.code))) throw error;
    const [initiator, joiner] = p.pair;
    return await runSession(transport, { ...p, pair: [joiner, initiator] }).catch((other: unknown) => {
      throw error.code === 'frozen' && hasNothing(other) ? error : other;
    });
  }
}

/** Then what the first one said counts: who is frozen is told by it, also where the other one is away. */
const hasNothing = (error: unknown) =>
  error instanceof NoAnswer || (error instanceof RefusedBySigner && error.code === 'frozen');

async function runSession(transport: SignerTransport, p: Run): Promise<Signature> {
  const [initiator, joiner] = p.pair;
  const { keyId, path, address, payload, receipt } = p.request;
  const asked = { keyId, path, address, payload, receipt };
  const session = newSession();
  const options = { session, timeoutMs: p.timeoutMs, signal: p.signal };
  const call = <T>(peer: SignerPeer, operation: 'start' | 'join' | 'step', body: object) =>
    transport.call<T>(peer, { path: `/v1/sign/${operation}`, body, ...options });
  const check = (result: SignedAnswer, signedBy: number) => checkSignature({ result, address, payload, signedBy });
  try {
    const asInitiator = { ...asked, counterparty: joiner.party };
    const first = await call<StartAnswer | SignedAnswer>(initiator, 'start', asInitiator);
    if ('signature' in first) return await check(first, initiator.party);
    // Only these two: what else an initiator answers must not become part of the question to the joiner.
    const { message, epoch } = first;
    const asJoiner = { ...asked, counterparty: initiator.party, message, epoch };
    const second = await call<RelayAnswer | SignedAnswer>(joiner, 'join', asJoiner);
    if ('signature' in second) {
      tellAbort(transport, { peer: initiator, session, timeoutMs: p.timeoutMs });
      return await check(second, joiner.party);
    }
    const third = await call<RelayAnswer>(initiator, 'step', { message: second.message });
    const result = await call<SignedAnswer>(joiner, 'step', { message: third.message });
    const signed = await check(result, joiner.party);
    tellSignature(transport, { peer: initiator, session, address, result, timeoutMs: p.timeoutMs });
    return signed;
  } catch (error) {
    for (const peer of p.pair) tellAbort(transport, { peer, session, timeoutMs: p.timeoutMs });
    throw error;
  }
}

/** The others must not wait for a run that is over. Whoever is not reached forgets it by its own time limit. */
export function tellAbort(
  transport: SignerTransport,
  p: { peer: SignerPeer; session: string; timeoutMs: number },
): void {
  const { session, timeoutMs } = p;
  transport.call(p.peer, { path: '/v1/abort', session, body: {}, timeoutMs }).catch(() => undefined);
}

/** The initiator does not see what came out, and is to give it again when asked for the same. Nobody waits for it. */
function tellSignature(
  transport: SignerTransport,
  p: { peer: SignerPeer; session: string; address: string; result: SignedAnswer; timeoutMs: number },
): void {
  const { session, timeoutMs, address } = p;
  const { digest, signature } = p.result;
  const body = { address, digest, signature };
  transport.call(p.peer, { path: '/v1/sign/learn', session, body, timeoutMs }).catch(() => undefined);
}

/** Nothing leaves the coordinator that is not the wallet's own signature over the digest that we computed ourselves. */
async function checkSignature(p: {
  result: SignedAnswer;
  address: string;
  payload: SignPayload;
  signedBy: number;
}): Promise<Signature> {
  const fail = (fault: string, cause?: unknown): never => {
    throw new SignerFault({ message: `the signature from signer ${p.signedBy} ${fault}`, party: p.signedBy, cause });
  };
  const digest = digestOf(p.payload, p.address);
  if (p.result.digest !== digest) fail(`is over digest ${p.result.digest}, expected ${digest}`);
  const judged = await judgeSignature({
    signature: p.result.signature,
    digest,
    address: p.address,
    chain: chainOf(p.payload),
  });
  return 'fault' in judged ? fail(judged.fault, judged.cause) : { signature: judged.signature, digest };
}
