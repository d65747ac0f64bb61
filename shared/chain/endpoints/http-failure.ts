import { RpcUnavailable } from '../errors.ts';
import type { EndpointFailure, Judge } from './driver.ts';

const [badRequest, unprocessable, tooManyRequests, forbidden, unavailable] = [400, 422, 429, 403, 503];
const firstServerError = 500;
/** An HTTP status that speaks of the endpoint or of whoever asks, not of the request. */
const refusedStatuses: readonly number[] = [401, 402, forbidden, 407, 408];

/** Why an HTTP request had no usable answer. Neither text nor message holds addresses or credentials. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure';
  /** `undefined` where nothing was answered, or nothing that can be understood. */
  readonly status: number | undefined;
  /** What was answered, or what went wrong. */
  readonly text: string;
  /** How long the endpoint asks to be left alone. */
  readonly retryAfterMs: number | undefined;
  constructor(p: { status?: number; text: string; retryAfterMs?: number | undefined }) {
    super(p.status === undefined ? p.text : `${p.text} (${p.status})`);
    this.status = p.status;
    this.text = p.text;
    this.retryAfterMs = p.retryAfterMs;
  }
}

/** What errors of an HTTP API mean that answers in JSON or plain text. */
export const httpJudge: Judge = {
  failureOf,
  isDecisive: (error) => error instanceof HttpFailure && isAboutRequest(error),
  mostTelling: (errors) =>
    errors.find(httpJudge.isDecisive) ??
    errors.findLast((each) => each instanceof HttpFailure && each.status !== undefined) ??
    errors.at(-1),
  asUnavailable(error) {
    if (error instanceof RpcUnavailable) return error;
    if (!(error instanceof HttpFailure)) return new RpcUnavailable('The request to the chain failed.');
    const { status, text } = error;
    if (status === undefined) return new RpcUnavailable(`No endpoint of the chain could be reached: ${text}`);
    const answer = { code: status, text, data: undefined };
    return new RpcUnavailable(`The chain's endpoint answered: ${text} (${status}).`, { answer });
  },
};

function failureOf(error: unknown): EndpointFailure {
  if (!(error instanceof HttpFailure) || error.status === undefined) return { kind: 'down' };
  const { status, retryAfterMs } = error;
  // TronGrid says 403 for too many requests, and for how long; others say 503.
  const isLimit = status === tooManyRequests || ([forbidden, unavailable].includes(status) && retryAfterMs);
  if (isLimit) return { kind: 'limited', forMs: retryAfterMs };
  const isDown = status < badRequest || status >= firstServerError || refusedStatuses.includes(status);
  return { kind: isDown ? 'down' : 'answer' };
}

function isAboutRequest({ status }: HttpFailure): boolean {
  return status === badRequest || status === unprocessable;
}
