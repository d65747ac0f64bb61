import type { IncomingMessage, ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import { startTarget, type TestTarget } from './target.ts';

/** A request that a receiver got. */
export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** When it had arrived, in milliseconds since 1970. */
  readonly atMs: number;
}

export type Answering = (response: ServerResponse, request: Received, count: number) => void;

/** A receiver of webhooks that keeps what it gets. */
export interface TestReceiver extends TestTarget {
  readonly received: Received[];
  /** How it answers from now on. @param answer told how many requests there were, this one included */
  answer(answer: Answering): void;
}

/** Starts a receiver, by TLS unless told otherwise; it answers 200 until told otherwise. */
export async function startReceiver({ tls = true }: { tls?: boolean } = {}): Promise<TestReceiver> {
  const received: Received[] = [];
  let answering: Answering = (response) => void response.end('ok');
  const listener = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const one: Received = {
      method: request.method!,
      path: request.url!,
      headers: request.headers as Record<string, string>,
      body: Buffer.concat(chunks).toString(),
      atMs: Date.now(),
    };
    received.push(one);
    answering(response, one, received.length);
  };
  const target = await startTarget(listener, { tls });
  return {
    ...target,
    received,
    answer(next) {
      answering = next;
    },
  };
}

/** The event in a request, if it was signed with this secret. @throws as the library of Standard Webhooks does */
export function verify(secret: string, { body, headers }: Received): Record<string, unknown> {
  return new Webhook(secret).verify(body, headers) as Record<string, unknown>;
}
