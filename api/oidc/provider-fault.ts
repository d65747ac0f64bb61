import { AuthorizationResponseError, ClientError, ResponseBodyError } from 'openid-client';
import { PurserError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';

/** Seconds after which a repeat may succeed. */
const retryAfterSeconds = 10;
/** Of the provider's own words, which are shown. */
const maxDescription = 200;

/** What openid-client says of an answer that is not meant for this sign-in, or that somebody made up. */
const notOfThisSignIn: ReadonlySet<string | undefined> = new Set([
  'OAUTH_INVALID_RESPONSE',
  'OAUTH_JWT_CLAIM_COMPARISON_FAILED',
  'OAUTH_JWT_TIMESTAMP_CHECK_FAILED',
  'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED',
]);

/** What a provider says when it is its own fault, or ours, that nobody can sign in (RFC 6749, 4.1.2.1). */
const passing = ['server_error', 'temporarily_unavailable'];
const ours = ['invalid_request', 'unauthorized_client', 'unsupported_response_type', 'invalid_scope', 'invalid_client'];

/**
 * What somebody is told whose sign-in the provider did not complete; the log gets more. Neither gets the error itself:
 * what the library keeps with it holds tokens.
 */
export function providerFault(error: unknown, { log }: { log: Logger }): PurserError {
  if (error instanceof PurserError) return error;
  const fault = toPurserError(error);
  log.warn({ ...wordsOf(error), status: fault.status }, 'a sign-in failed at the identity provider');
  return fault;
}

/** The provider does not answer as one. */
export function unreachable(more: { retryAfterSeconds: number }): PurserError {
  const message = 'The identity provider cannot be reached, so that nobody can sign in now. Try again in a moment.';
  return new PurserError('service_unavailable', message, more);
}

function toPurserError(error: unknown): PurserError {
  if (error instanceof AuthorizationResponseError) return refusedBy(error);
  if (error instanceof ResponseBodyError)
    return error.error === 'invalid_grant' ? notYours() : misconfigured(error.error);
  if (error instanceof ClientError && notOfThisSignIn.has(error.code)) return notYours();
  return unreachable({ retryAfterSeconds });
}

/** The provider has sent the browser back with an error. */
function refusedBy(error: AuthorizationResponseError): PurserError {
  if (passing.includes(error.error)) return unreachable({ retryAfterSeconds });
  if (ours.includes(error.error)) return misconfigured(error.error);
  const said = error.error_description === undefined ? '' : ` It says: ${shown(error.error_description)}`;
  return new PurserError(
    'insufficient_permissions',
    `The identity provider did not let you in (${shown(error.error)}).${said}`,
  );
}

const notYours = () =>
  new PurserError(
    'authentication_failed',
    'What came back from the identity provider does not belong to this sign-in, or was used before. Sign in again.',
  );

const misconfigured = (code: string) =>
  new PurserError(
    'service_unavailable',
    `The identity provider refuses this installation (${shown(code)}), so that nobody can sign in. Tell its operator.`,
    { retryAfterSeconds },
  );

/** Text from outside, for a sentence of ours. */
function shown(text: string): string {
  const plain = text.replaceAll(/\p{C}+/gu, ' ').trim();
  return plain.length > maxDescription ? `${plain.slice(0, maxDescription)}…` : plain;
}

/** Names and codes of an error of the library, and nothing that it keeps besides. */
export function wordsOf(error: unknown): Record<string, unknown> {
  const { name, message, code, error: said, cause } = error as Error & { code?: string; error?: unknown };
  const inner = cause instanceof Error ? { cause: cause.message } : {};
  return { reason: name, message, code, ...(typeof said === 'string' && { said: shown(said) }), ...inner };
}
