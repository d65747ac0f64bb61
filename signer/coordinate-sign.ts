import { type Hex, hexToBytes, isAddressEqual, numberToHex, recoverAddress, slice } from 'viem';
import type { SignPayload } from '../shared/domain/receipt.ts';
import type { SignerPeer, SignerTransport } from './call.ts';
import { digestOf } from './digest/payload.ts';
import { SignerFault } from './errors.ts';
import { newSession } from './new-session.ts';

const SIGNATURE_BYTES = 65;
/** Half of the order of secp256k1: EIP-2 allows only s at or below it. */
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

/** One signature over one whole transaction or authorisation. JSON-safe. */
export interface SignRequest {
  /** Id of the account's key. */
  keyId: string;
  /** Child path of the wallet, for example `m/44/60/0/0/7`. */
  path: string;
  /** Address of the wallet; the signature must recover to it. */
  address: string;
  payload: SignPayload;
  /** Compact JWS by the policy step; see shared/receipt.ts. */
  receipt: string;
}

export interface Signature {
  /** r | s | v: 65 bytes, low s, v 27 or 28. */
  signature: Hex;
  digest: Hex;
}

/**
 * Runs one signature between two signers: four requests, each carrying what the other side said.
 * @throws RefusedBySigner, NoAnswer, SignerFault
 */
export async function coordinateSign(
  transport: SignerTransport,
  p: { pair: readonly [SignerPeer, SignerPeer]; request: SignRequest; timeoutMs: number; signal: AbortSignal },
): Promise<Signature> {
  const [initiator, joiner] = p.pair;
  const { keyId, path, address, payload, receipt } = p.request;
  const asked = { keyId, path, address, payload, receipt };
  const session = newSession();
  const options = { session, timeoutMs: p.timeoutMs, signal: p.signal };
  const call = <T>(peer: SignerPeer, operation: 'start' | 'join' | 'step', body: object) =>
    transport.call<T>(peer, { path: `/v1/sign/${operation}`, body, ...options });
  type Relayed = { message: string };
  try {
    const first = await call<Relayed>(initiator, 'start', { ...asked, counterparty: joiner.party });
    const second = await call<Relayed>(joiner, 'join', {
      ...asked,
      counterparty: initiator.party,
      message: first.message,
    });
    const third = await call<Relayed>(initiator, 'step', { message: second.message });
    const result = await call<Signature>(joiner, 'step', { message: third.message });
    return await checkSignature({ result, address: address as Hex, payload, signedBy: joiner.party });
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

/** Nothing leaves the coordinator that is not the wallet's own signature over the digest that we computed ourselves. */
async function checkSignature(p: {
  result: Signature;
  address: Hex;
  payload: SignPayload;
  signedBy: number;
}): Promise<Signature> {
  const fail = (message: string, cause?: unknown): never => {
    throw new SignerFault({ message: `the signature from signer ${p.signedBy} ${message}`, party: p.signedBy, cause });
  };
  const digest = digestOf(p.payload);
  if (p.result.digest !== digest) fail(`is over digest ${p.result.digest}, expected ${digest}`);
  const bytes = hexToBytes(p.result.signature);
  if (bytes.length !== SIGNATURE_BYTES) fail(`has ${bytes.length} bytes, expected ${SIGNATURE_BYTES}`);
  if (BigInt(slice(p.result.signature, 32, 64)) > HALF_ORDER) fail('has a high s');
  const signature: Hex = `${slice(p.result.signature, 0, 64)}${numberToHex(27 + bytes[64]!).slice(2)}`;
  const recovered = await recoverAddress({ hash: digest, signature }).catch((cause) =>
    fail('recovers to nothing', cause),
  );
  if (!isAddressEqual(recovered, p.address)) fail(`recovers to ${recovered}, expected ${p.address}`);
  return { signature, digest };
}
