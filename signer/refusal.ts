/**
 * Everything that a signer answers instead of what was asked. A closed list; the coordinator maps each to one of its
 * errors. `session` says that the session named in the request has ended with it.
 */
export const refusals = {
  // About the payment: the caller must change something.
  receipt_expired: 403,
  receipt_invalid: 403,
  intent_mismatch: 403,
  unsupported_call: 403,
  slot_taken: 409,
  limit_exceeded: 403,
  frozen: 403,
  unknown_key: 404,
  key_exists: 409,
  malformed: 400,
  // About this signer, now: another pair, or a later try, may succeed.
  busy: 503,
  share_damaged: 500,
  banned_pair: 409,
  unknown_session: 409,
  other_epoch: 409,
  records_missing: 503,
  limits_differ: 409,
  backup_failed: 503,
  // About the messages: the session is over, and somebody should look.
  bad_message: 400,
  protocol_fault: 502,
  // About what the sender may ask.
  forbidden: 403,
  limits_outdated: 409,
  freeze_outdated: 409,
  // About the sender: answered without a signature, because nobody is known to listen.
  unauthenticated: 401,
  replayed: 401,
  oversize: 413,
  not_found: 404,
  internal: 500,
} as const;

export type RefusalCode = keyof typeof refusals;

/** Says which value, which rule, and what would be right; never a secret, never bytes of a message. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: RefusalCode;
  /** The party that the protocol blames. */
  readonly culprit: number | null;
  constructor(code: RefusalCode, message: string, more: { culprit?: number | null; cause?: unknown } = {}) {
    super(message, { cause: more.cause });
    this.code = code;
    this.culprit = more.culprit ?? null;
  }
}
