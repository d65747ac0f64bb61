import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { DevelopmentIssuer } from './issuer.ts';

const BODY_LIMIT_BYTES = 1_024;
/** Longest address that mail servers carry. Source: RFC 5321, 4.5.3.1.3. */
const MAX_EMAIL_LENGTH = 254;

const bodyShape = z.strictObject({ email: z.email().max(MAX_EMAIL_LENGTH).toLowerCase() });

interface JsonAnswer {
  readonly status: number;
  readonly body: object;
}

/**
 * Answers `POST /token {"email": "…"}` as OAuth 2.0 answers (RFC 6749, 5.1), for anybody on this machine. A page of
 * another origin gets none: it may send a form here, but no JSON, and its browser says where it comes from.
 */
export async function answerToken(issuer: DevelopmentIssuer, request: IncomingMessage): Promise<JsonAnswer> {
  const { host, origin, 'content-type': type = '' } = request.headers;
  if (request.method !== 'POST') return refusal(405, 'Use POST.');
  if (origin !== undefined && origin !== `http://${host}`) return refusal(403, `Tokens are not for ${origin}.`);
  if (!/^application\/json\s*(;|$)/i.test(type)) return refusal(415, 'Send JSON, with Content-Type application/json.');
  const body = bodyShape.safeParse(await readJson(request));
  if (!body.success) return refusal(400, 'The body must be {"email": "…"} with an e-mail address.');
  const { email } = body.data;
  const { token, lifetimeSeconds } = await issuer.issueToken({ email });
  return {
    status: 200,
    body: {
      access_token: token,
      token_type: 'Bearer',
      expires_in: lifetimeSeconds,
      note: `For development only: nobody has checked that ${email} is yours.`,
    },
  };
}

const refusal = (status: number, message: string): JsonAnswer => ({ status, body: { message } });

/** Undefined for a body that is too long, or no JSON. */
async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let length = 0;
  // What comes after the limit is left unread, so that the answer still reaches its sender.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > BODY_LIMIT_BYTES) return undefined;
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}
