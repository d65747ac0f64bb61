import { setTimeout as delay } from 'node:timers/promises';
import { noteSecret, noteSecretsIn } from './secrets.ts';

/** An answer of the API, whatever its status. */
export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
  readonly body: any;
  readonly headers: Headers;
}

/** The API as a client sees it. */
export interface TestClient {
  get(path: string): Promise<Answer>;
  post(path: string, body: unknown): Promise<Answer>;
  put(path: string, body: unknown): Promise<Answer>;
  delete(path: string): Promise<Answer>;
}

export function createTestClient({ baseUrl, apiKey }: { baseUrl: string; apiKey: string }): TestClient {
  noteSecret('the API key of a client', apiKey);
  const call = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const response = await fetch(`${baseUrl}/api/v1${path}`, {
      method,
      headers: { 'X-API-Key': apiKey, 'Content-Type': 'application/json', Connection: 'close' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer = await response.json();
    for (const [what, content] of [
      ['request', body],
      ['answer', answer],
    ])
      noteSecretsIn(`the ${what} of ${method} ${path}`, content);
    return { status: response.status, body: answer, headers: response.headers };
  };
  return {
    get: (path) => call('GET', path),
    post: (path, body) => call('POST', path, body),
    put: (path, body) => call('PUT', path, body),
    delete: (path) => call('DELETE', path),
  };
}

/** Longer than anything takes on a machine that is busy with much else: who waits for it in vain has failed anyway. */
const PATIENCE_MS = 60_000;

/**
 * Asks again and again until the answer is right; fails with the last one. Errors of the network count as "not yet".
 * @param o.timeoutMs for what takes still longer; it proves nothing about time
 */
export async function eventually<T>(
  look: () => Promise<T>,
  isRight: (seen: T) => boolean,
  { timeoutMs = PATIENCE_MS }: { timeoutMs?: number } = {},
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  let last: unknown;
  while (Date.now() < deadline) {
    try {
      const seen = await look();
      if (isRight(seen)) return seen;
      last = seen;
    } catch (error) {
      last = String(error);
    }
    await delay(50);
  }
  throw new Error(`Not within ${timeoutMs} ms; last seen: ${JSON.stringify(last)}`);
}
