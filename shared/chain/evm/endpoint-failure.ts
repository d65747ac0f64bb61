import { BaseError, HttpRequestError, RpcRequestError } from 'viem';
import type { EndpointFailure, Judge } from '../endpoints/driver.ts';
import { kindOfAnswer } from './node-errors.ts';
import { innermostCode, nodeAnswer, rpcUnavailable } from './rpc.ts';

/** Longest time that an endpoint is left alone because it said so. */
const longestWishMs = 5 * 60_000;
const tooManyRequests = 429;
const firstServerError = 500;

/** What an error says about the endpoint. */
export function failureOf(error: unknown): EndpointFailure {
  const answer = nodeAnswer(error);
  if (!answer) return { kind: 'down' };
  const http = httpAnswer(error);
  const kind = http?.status === tooManyRequests ? 'limited' : kindOfAnswer(answer);
  if (kind === 'limited') return { kind, forMs: wishedRestMs(error, answer.text) };
  if (kind === 'answer' || kind === 'lags') return { kind: 'answer' };
  // An HTTP error without JSON-RPC in it, or a server's error with a text that says nothing we know.
  const isDown = error instanceof BaseError && error.walk((each) => each instanceof HttpRequestError) !== null;
  return isDown || (http?.status ?? 0) >= firstServerError ? { kind: 'down' } : { kind: 'answer' };
}

/** Whether another endpoint would only repeat it: asking on would hide it behind the next one's failure. */
export function isDecisive(error: unknown): boolean {
  const answer = nodeAnswer(error);
  return answer !== undefined && kindOfAnswer(answer) === 'answer';
}

/** Of several errors the one that decides something, else the last with a node's words, else the last. */
function mostTelling(errors: readonly unknown[]): unknown {
  return errors.find(isDecisive) ?? errors.findLast((each) => nodeAnswer(each) !== undefined) ?? errors.at(-1);
}

/** What errors of JSON-RPC mean. */
export const rpcJudge: Judge = { failureOf, isDecisive, mostTelling, asUnavailable: rpcUnavailable };

/** Whether the connection ended before an answer came: it had been closed at the other end. */
export function wasCutOff(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(innermostCode(error) ?? '');
}

function httpAnswer(error: unknown): { status?: number | undefined; headers?: Headers | undefined } | undefined {
  if (!(error instanceof BaseError)) return undefined;
  const found = error.walk((each) => each instanceof HttpRequestError || each instanceof RpcRequestError);
  return (found as HttpRequestError | RpcRequestError | null) ?? undefined;
}

/** How long it asks to be left alone: RFC 9110 Retry-After; `backoff_seconds` of Infura; "retry in 10s" of Ankr. */
function wishedRestMs(error: unknown, text: string): number | undefined {
  const { headers, data } = (httpAnswer(error) ?? {}) as { headers?: Headers; data?: unknown };
  const header = headers?.get('retry-after') ?? '';
  const rate = (data as { rate?: { backoff_seconds?: unknown } } | undefined)?.rate;
  const [, minutes = '0', seconds = '0'] = /(?:retry|try again) in (?:(\d{1,3})m)?(?:(\d{1,4}) ?s)?/i.exec(text) ?? [];
  const wishes = [
    /^\d{1,6}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now(),
    typeof rate?.backoff_seconds === 'number' ? rate.backoff_seconds * 1_000 : 0,
    Number(minutes) * 60_000 + Number(seconds) * 1_000,
  ].filter((ms) => ms > 0);
  return wishes.length === 0 ? undefined : Math.min(Math.max(...wishes), longestWishMs);
}
