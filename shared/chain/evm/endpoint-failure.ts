import { BaseError, HttpRequestError, RpcRequestError } from 'viem';
import type { EndpointFailure, Judge } from '../endpoints/driver.ts';
import { wishedRestMs } from '../endpoints/wished-rest.ts';
import { kindOfAnswer } from './node-errors.ts';
import { nodeAnswer, rpcUnavailable } from './rpc.ts';

const tooManyRequests = 429;
const firstServerError = 500;

/** What an error says about the endpoint. */
export function failureOf(error: unknown): EndpointFailure {
  const answer = nodeAnswer(error);
  if (!answer) return { kind: 'down' };
  const http = httpAnswer(error);
  const kind = http?.status === tooManyRequests ? 'limited' : kindOfAnswer(answer);
  if (kind === 'limited') return { kind, forMs: wishOf(error, answer.text) };
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

function httpAnswer(error: unknown): { status?: number | undefined; headers?: Headers | undefined } | undefined {
  if (!(error instanceof BaseError)) return undefined;
  const found = error.walk((each) => each instanceof HttpRequestError || each instanceof RpcRequestError);
  return (found as HttpRequestError | RpcRequestError | null) ?? undefined;
}

/** Retry-After, `backoff_seconds` of Infura, or words. */
function wishOf(error: unknown, text: string): number | undefined {
  const { headers, data } = (httpAnswer(error) ?? {}) as { headers?: Headers; data?: unknown };
  const rate = (data as { rate?: { backoff_seconds?: unknown } } | undefined)?.rate;
  const otherMs = typeof rate?.backoff_seconds === 'number' ? rate.backoff_seconds * 1_000 : 0;
  return wishedRestMs({ header: headers?.get('retry-after'), text, otherMs });
}
