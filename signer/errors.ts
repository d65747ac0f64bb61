/** Why a signer, or the coordinator, would not sign. A closed list: it is stored, logged and switched upon. */
export type RefusalReason =
  /** The receipt's time is over: evaluate the policy again and ask with a new one. */
  | 'receipt_expired'
  /** Not signed by the policy key, or not a receipt. */
  | 'receipt_invalid'
  /** The transaction is not what the receipt allows. */
  | 'intent_mismatch'
  /** The nonce was used for another payment, or the payment has another nonce. */
  | 'slot_taken'
  /** More than the account's owner allows. */
  | 'limit_exceeded'
  /** The payment's agent, its account or the whole is frozen: nothing new is signed until that is lifted. */
  | 'frozen'
  /** No ready key of that id at this signer. */
  | 'unknown_key'
  /** The key id was used before; key ids are never used twice. */
  | 'key_exists'
  /** The request does not have the documented shape. */
  | 'malformed'
  /** A kind of call that signers do not sign. */
  | 'unsupported_call';

/** Fewer than two signers (three for a new key) answered in time. Ask again later. */
export class SignerUnavailable extends Error {
  override readonly name = 'SignerUnavailable';
}

/** A signer looked at the request and said no. The same request will be refused again. */
export class SignRefused extends Error {
  override readonly name = 'SignRefused';
  readonly reason: RefusalReason;
  constructor(p: { reason: RefusalReason; message: string; cause?: unknown }) {
    super(p.message, { cause: p.cause });
    this.reason = p.reason;
  }
}

/** A signer broke the protocol, or the answer does not verify. May be an attack: alert, and do not retry by itself. */
export class SignerFault extends Error {
  override readonly name = 'SignerFault';
  /** The party that is blamed, where the protocol can tell. */
  readonly party: number | null;
  constructor(p: { message: string; party?: number | null; cause?: unknown }) {
    super(p.message, { cause: p.cause });
    this.party = p.party ?? null;
  }
}

/** A key gets no new shares before an operator has looked. Trying again changes nothing. */
export class RefreshBlocked extends Error {
  override readonly name = 'RefreshBlocked';
  readonly keyId: string;
  /** `banned`: a signer cheated. `repair_needed`: one has lost its shares, or missed a refresh. */
  readonly reason: 'banned' | 'repair_needed';
  /** Those whom it is about. */
  readonly parties: readonly number[];
  constructor(p: { keyId: string; reason: 'banned' | 'repair_needed'; parties: readonly number[]; message: string }) {
    super(p.message);
    this.keyId = p.keyId;
    this.reason = p.reason;
    this.parties = p.parties;
  }
}
