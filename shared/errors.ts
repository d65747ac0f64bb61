/** HTTP status and `type` of every error code that the service answers with. The list is closed. */
export const errorCodes = {
  invalid_request: { status: 400, type: 'invalid_request_error' },
  policy_violation: { status: 400, type: 'invalid_request_error' },
  insufficient_funds: { status: 400, type: 'invalid_request_error' },
  agent_inactive: { status: 400, type: 'invalid_request_error' },
  invalid_chain: { status: 400, type: 'invalid_request_error' },
  invalid_token: { status: 400, type: 'invalid_request_error' },
  invalid_address: { status: 400, type: 'invalid_request_error' },
  invalid_amount: { status: 400, type: 'invalid_request_error' },
  session_expired: { status: 400, type: 'invalid_request_error' },
  budget_exceeded: { status: 400, type: 'invalid_request_error' },
  url_not_allowed: { status: 400, type: 'invalid_request_error' },
  payment_not_required: { status: 400, type: 'invalid_request_error' },
  no_acceptable_offer: { status: 400, type: 'invalid_request_error' },
  target_unreachable: { status: 400, type: 'invalid_request_error' },
  approval_timeout: { status: 400, type: 'invalid_request_error' },
  authentication_failed: { status: 401, type: 'authentication_error' },
  insufficient_permissions: { status: 403, type: 'authorization_error' },
  resource_not_found: { status: 404, type: 'not_found_error' },
  method_not_allowed: { status: 405, type: 'invalid_request_error' },
  approval_already_decided: { status: 409, type: 'invalid_request_error' },
  transaction_not_cancellable: { status: 409, type: 'invalid_request_error' },
  transaction_not_replaceable: { status: 409, type: 'invalid_request_error' },
  idempotency_key_conflict: { status: 409, type: 'invalid_request_error' },
  idempotency_key_in_progress: { status: 409, type: 'invalid_request_error' },
  rate_limit_exceeded: { status: 429, type: 'rate_limit_error' },
  server_error: { status: 500, type: 'internal_error' },
  service_unavailable: { status: 503, type: 'internal_error' },
} as const satisfies Record<string, { status: number; type: string }>;

export type ErrorCode = keyof typeof errorCodes;

/**
 * An error that the caller of the API is meant to read: which value, which rule, what would be right.
 * Anything else that is thrown is a fault of ours and is answered as `server_error` without detail.
 */
export class PurserError extends Error {
  override readonly name = 'PurserError';
  readonly code: ErrorCode;
  /** Dotted path of the request member at fault. */
  readonly param: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  /** Whole seconds after which a repeat makes sense; becomes `Retry-After`. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    more: {
      param?: string | undefined;
      details?: Record<string, unknown> | undefined;
      retryAfterSeconds?: number;
      cause?: unknown;
    } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.code = code;
    this.param = more.param;
    this.details = more.details;
    this.retryAfterSeconds = more.retryAfterSeconds;
  }

  get status(): number {
    return errorCodes[this.code].status;
  }
}
