import { errors } from 'undici';

/** Why a server that somebody else has named gave no answer that can be used. */
export type OutgoingFailureReason =
  | 'timeout'
  | 'connection_refused'
  | 'connection_reset'
  | 'dns_error'
  | 'tls_error'
  | 'invalid_response'
  | 'response_too_large'
  | 'blocked_address';

/** An answer that did not come. The message goes on after a colon, like "its name does not resolve". */
export class OutgoingFailure extends Error {
  override readonly name = 'OutgoingFailure';
  readonly reason: OutgoingFailureReason;

  constructor(reason: OutgoingFailureReason, message: string, { cause }: { cause?: unknown } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.reason = reason;
  }
}

const sentences: Readonly<Record<Exclude<OutgoingFailureReason, 'timeout' | 'blocked_address'>, string>> = {
  connection_refused: 'nothing can be reached at its address',
  connection_reset: 'it closed the connection before its answer was complete',
  dns_error: 'its name does not resolve',
  tls_error: 'no secure connection can be made: its certificate is not valid for it, or it does not speak TLS',
  invalid_response: 'its answer is not valid HTTP',
  response_too_large: 'its answer is too large (16 KiB of headers and 1 MiB of body at most)',
};

const timeouts = new Set(['ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

const reasons: Readonly<Record<string, keyof typeof sentences>> = {
  ECONNREFUSED: 'connection_refused',
  EHOSTUNREACH: 'connection_refused',
  ENETUNREACH: 'connection_refused',
  EADDRNOTAVAIL: 'connection_refused',
  ECONNRESET: 'connection_reset',
  ECONNABORTED: 'connection_reset',
  EPIPE: 'connection_reset',
  UND_ERR_SOCKET: 'connection_reset',
  UND_ERR_HEADERS_OVERFLOW: 'response_too_large',
  HPE_HEADER_OVERFLOW: 'response_too_large',
  UND_ERR_RES_EXCEEDED_MAX_SIZE: 'response_too_large',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'invalid_response',
};

/** What was thrown on the way to another server, as the reason that is told. */
export function failureOf(error: unknown, { timeoutMs }: { timeoutMs: number }): OutgoingFailure {
  if (error instanceof OutgoingFailure) return error;
  const { name, code = '' } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError' || timeouts.has(code))
    return new OutgoingFailure('timeout', `its answer was not complete after ${timeoutMs / 1000} s`, { cause: error });
  const reason = reasons[code] ?? reasonOfKind(error as Error, code);
  // Anything else is a fault of ours, and must not look like one of theirs.
  if (reason === undefined) throw error;
  return new OutgoingFailure(reason, sentences[reason], { cause: error });
}

function reasonOfKind(error: Error, code: string): keyof typeof sentences | undefined {
  if (error instanceof errors.HTTPParserError) return 'invalid_response';
  // OpenSSL's names for what can be wrong with a certificate have no prefix in common.
  if (
    /^(ERR_SSL_|ERR_TLS_|CERT_|EPROTO$|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|INVALID_CA$|HOSTNAME_MISMATCH$)/.test(code)
  )
    return 'tls_error';
  return undefined;
}
