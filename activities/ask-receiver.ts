import type { AttemptOutcome } from '../shared/db/webhook-attempts.ts';
import type { GuardedAnswer, GuardedRequest, HttpGuard } from '../shared/http-guard.ts';
import { OutgoingFailure } from '../shared/outgoing-failure.ts';

/** How much of an answer is kept, as UTF-8. */
const maxShownBytes = 1024;

/** What became of a request, and when the receiver wants the next one. */
export interface ReceiverAnswer {
  readonly outcome: AttemptOutcome;
  readonly retryAfter: string | readonly string[] | undefined;
}

/** Makes one request to a receiver. @throws only what is a fault of ours */
export async function askReceiver(guard: HttpGuard, request: GuardedRequest): Promise<ReceiverAnswer> {
  const begun = performance.now();
  try {
    const answer = await guard(request);
    return readAnswer(answer, { responseTimeMs: Math.round(performance.now() - begun) });
  } catch (error) {
    if (!(error instanceof OutgoingFailure)) throw error;
    const outcome = {
      statusCode: null,
      responseTimeMs: null,
      failureReason: error.reason,
      failureMessage: `The receiver could not be asked: ${error.message}.`,
      responseBody: null,
    };
    return { outcome, retryAfter: undefined };
  }
}

function readAnswer(
  { status, headers, body }: GuardedAnswer,
  { responseTimeMs }: { responseTimeMs: number },
): ReceiverAnswer {
  const isTaken = status >= 200 && status < 300;
  const outcome = {
    statusCode: status,
    responseTimeMs,
    failureReason: isTaken ? null : 'non_2xx',
    failureMessage: isTaken ? null : refusal(status),
    responseBody: firstWords(body),
  };
  return { outcome, retryAfter: isTaken ? undefined : headers['retry-after'] };
}

function refusal(status: number): string {
  if (status >= 300 && status < 400)
    return `The receiver answered ${status}: redirects are not followed, so the webhook needs the url to which it leads.`;
  return `The receiver answered ${status}: only 2xx says that it has taken the event.`;
}

/** How a body begins, as text that a database keeps and JSON shows: what is no UTF-8, and NUL, is U+FFFD. */
function firstWords(body: Uint8Array): string {
  const decode = (bytes: Uint8Array) =>
    // As a stream, so that a character that is cut in two is left out.
    new TextDecoder().decode(bytes.subarray(0, maxShownBytes), { stream: bytes.length > maxShownBytes });
  const text = decode(body).replaceAll('\0', '\uFFFD');
  return decode(new TextEncoder().encode(text));
}
