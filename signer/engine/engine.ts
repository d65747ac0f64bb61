/**
 * The one interface between Purser and the threshold-ECDSA engine (DKLs23, crate `dkls23-secp256k1`), and its batch
 * codec. The WebAssembly and the N-API build implement it alike. The protocol crate has had no third-party audit, which
 * is why nothing else in the service knows it.
 */

/**
 * - `input`: malformed, replayed, misrouted or misused; nothing follows about a party's honesty
 * - `recoverable`: the run failed; a new session with a new id may succeed
 * - `ban`: `culprit` provably cheated inside an authenticated message; never sign with it again
 * - `fatal`: the engine itself failed; discard this thread or process
 */
export type FaultKind = 'input' | 'recoverable' | 'ban' | 'fatal';

export interface EngineError extends Error {
  kind: FaultKind;
  culprit: number | null;
}

export interface KeyShare {
  readonly party: number;
  readonly threshold: number;
  readonly parties: number;
  /** Uncompressed joint public key, 65 bytes. */
  readonly publicKey: Uint8Array;
  /** BIP-32 chain code, 32 bytes. */
  readonly chainCode: Uint8Array;
  /** EVM address of the joint public key, with checksum. */
  readonly address: string;
  /** Secret. Encrypt and authenticate it at rest: a flipped bit can blame an innocent party. */
  toBytes(): Uint8Array;
  /** A child share; `path` is BIP-32 without hardened steps, for example `m/44/60/0/0/7`. */
  derive(path: string): KeyShare;
  /** True after a repair: signs nothing and cannot help another repair until a complete refresh. */
  readonly isHollow: boolean;
  /**
   * This helper's part in giving the lost share of `target` back: a batch with one message, secret and for the target
   * only. Whoever receives the parts of all `helpers` has the share, so the target must be authenticated, and a complete
   * refresh must follow. For root shares only.
   * @param repairId 32 random bytes, fresh for every repair and equal for all its helpers and the target
   * @param helpers threshold many parties in rising order, this one among them, `target` not
   */
  repairTerm(repairId: Uint8Array, target: number, helpers: Uint8Array): Uint8Array;
  free(): void;
}

interface Session {
  /** `fresh`, `running`, `done`, `taken`, `dead` or `freed`. */
  readonly state: string;
  /** The first outbound batch; once. */
  start(): Uint8Array;
  /** Takes the whole inbound batch of a round, returns the outbound one. Any error kills the session. */
  step(inbound: Uint8Array): Uint8Array;
  free(): void;
}

export interface ShareSession extends Session {
  takeShare(): KeyShare;
}

export interface SignSession extends Session {
  /** r | s (low) | recovery id: 65 bytes. */
  takeSignature(): Uint8Array;
}

/** Session ids are 32 random bytes, fresh for every session and equal for all its parties. */
export interface ThresholdEngine {
  readonly build: 'wasm' | 'native';
  readonly KeyShare: {
    fromBytes(bytes: Uint8Array): KeyShare;
    /**
     * The lost share of `party` from the messages of all helpers ({@link KeyShare.repairTerm}), as a hollow share. The
     * helpers must agree on the key, its chain code, and every party's public share; that it is the right key is for the
     * caller to check.
     * @param terms batch of the helpers' messages, `from` being the authenticated helper
     */
    assemble(repairId: Uint8Array, party: number, terms: Uint8Array): KeyShare;
  };
  readonly DkgSession: new (party: number, threshold: number, parties: number, sessionId: Uint8Array) => ShareSession;
  /**
   * New shares of the same key for all parties at once, by 4 message rounds; public key, chain code and children stay.
   * A refreshed share signs only with others of the same refresh. Takes root shares, none of them hollow.
   */
  readonly RefreshSession: new (
    share: KeyShare,
    sessionId: Uint8Array,
  ) => ShareSession;
  /**
   * As {@link RefreshSession}, with all secrets that pairs of parties hold made anew as well: costs about as much as a key
   * generation, and makes a hollow share whole.
   */
  readonly CompleteRefreshSession: new (
    share: KeyShare,
    sessionId: Uint8Array,
  ) => ShareSession;
  /** `counterparties`: exactly threshold − 1 other party numbers. */
  readonly SignSession: new (
    share: KeyShare,
    sessionId: Uint8Array,
    digest: Uint8Array,
    counterparties: Uint8Array,
  ) => SignSession;
}

/** Part of the additional data of every sealed share: what was written by another engine version is not opened blindly. */
export const engineVersion = 'dkls23-secp256k1@0.6.2';

/** Malformed input found on our side of the engine, in the engine's own terms. */
function inputError(message: string): EngineError {
  return Object.assign(new Error(message), { kind: 'input' as const, culprit: null });
}

/** True after a WebAssembly trap or a panic: nothing in this thread's engine may be used again. */
export function isEngineBroken(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.name === 'RuntimeError' || ('kind' in error && error.kind === 'fatal');
}

/** Every error becomes an EngineError; one without a kind (a WebAssembly trap) is fatal. */
export function toEngineError(error: unknown): EngineError {
  if (error instanceof Error && 'kind' in error && 'culprit' in error) return error as EngineError;
  const message = error instanceof Error ? error.message : String(error);
  return Object.assign(new Error(`engine trap: ${message}`, { cause: error }), {
    kind: 'fatal' as const,
    culprit: null,
  });
}

/** One protocol message. `to` 0 is a broadcast; `from` must be the sender that the transport authenticated. */
export interface Message {
  from: number;
  to: number;
  body: Uint8Array;
}

const MESSAGES_MAX = 255;
const HEADER_BYTES = 6;

/** `count u8 | count × (from u8 | to u8 | length u32 LE | body)`. */
export function encodeBatch(messages: readonly Message[]): Uint8Array {
  if (messages.length > MESSAGES_MAX) throw new RangeError(`a batch holds at most ${MESSAGES_MAX} messages`);
  const out = new Uint8Array(messages.reduce((n, m) => n + HEADER_BYTES + m.body.length, 1));
  const view = new DataView(out.buffer);
  out[0] = messages.length;
  let offset = 1;
  for (const { from, to, body } of messages) {
    out[offset] = from;
    out[offset + 1] = to;
    view.setUint32(offset + 2, body.length, true);
    out.set(body, offset + HEADER_BYTES);
    offset += HEADER_BYTES + body.length;
  }
  return out;
}

/** The inverse of {@link encodeBatch}. @throws EngineError `input` on truncated or trailing bytes */
export function decodeBatch(batch: Uint8Array): Message[] {
  if (batch.length === 0) throw inputError('batch is truncated');
  const view = new DataView(batch.buffer, batch.byteOffset, batch.byteLength);
  const messages: Message[] = [];
  let offset = 1;
  for (let left = view.getUint8(0); left > 0; left--) {
    if (offset + HEADER_BYTES > batch.length) throw inputError('batch is truncated');
    const end = offset + HEADER_BYTES + view.getUint32(offset + 2, true);
    if (end > batch.length) throw inputError('batch is truncated');
    messages.push({
      from: view.getUint8(offset),
      to: view.getUint8(offset + 1),
      body: batch.subarray(offset + HEADER_BYTES, end),
    });
    offset = end;
  }
  if (offset !== batch.length) throw inputError('batch has trailing bytes');
  return messages;
}
