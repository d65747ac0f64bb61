import { setTimeout as delay } from 'node:timers/promises';

const pauseMs = 200;
/** A client that has heard nothing for so long asks again. */
const answerWithinMs = 30_000;
const insistForMs = 180_000;

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape are looked into
type Body = any;

export interface Answer {
  readonly status: number;
  readonly body: Body;
  readonly replayed: boolean;
}

/** A client of the service, as an agent's program is one; it knows that answers get lost. It asks each api in turn. */
export interface CrashClient {
  get(path: string): Promise<Answer>;
  /** @throws TypeError, or a TimeoutError, when no answer comes: what was asked for may have been done */
  post(path: string, body: object, o?: { key?: string }): Promise<Answer>;
  delete(path: string): Promise<Answer>;
  /** Asks again and again until there is an answer that is none of a service in trouble. */
  insist(ask: () => Promise<Answer>): Promise<Answer>;
}

export function createCrashClient({ apiUrls, apiKey }: { apiUrls: readonly string[]; apiKey: string }): CrashClient {
  let calls = 0;
  async function call(method: string, path: string, body?: object, key?: string): Promise<Answer> {
    calls += 1;
    const response = await fetch(`${apiUrls[calls % apiUrls.length]}/api/v1${path}`, {
      method,
      headers: {
        'X-API-Key': apiKey,
        'Content-Type': 'application/json',
        Connection: 'close',
        ...(key === undefined ? {} : { 'Idempotency-Key': key }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(answerWithinMs),
    });
    const replayed = response.headers.get('idempotent-replayed') === 'true';
    return { status: response.status, body: await response.json(), replayed };
  }
  return {
    get: (path) => call('GET', path),
    post: (path, body, o) => call('POST', path, body, o?.key),
    delete: (path) => call('DELETE', path),
    async insist(ask) {
      const deadline = Date.now() + insistForMs;
      for (;;) {
        const answer = await ask().catch((error: unknown) => String(error));
        if (typeof answer !== 'string' && answer.status < 500 && answer.status !== 429 && !isInProgress(answer))
          return answer;
        if (Date.now() > deadline)
          throw new Error(`No answer within ${insistForMs / 1000} s: ${JSON.stringify(answer)}`);
        await delay(pauseMs);
      }
    },
  };
}

function isInProgress({ status, body }: Answer): boolean {
  return status === 409 && body.code === 'idempotency_key_in_progress';
}
