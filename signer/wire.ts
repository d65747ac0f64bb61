import { createHash, randomUUID } from 'node:crypto';
import { CompactSign, type CryptoKey, compactVerify } from 'jose';
import { z } from 'zod';
import type { Party } from './parties.ts';

/** Header of a request: compact JWS by the coordinator over everything in the request. */
export const REQUEST_HEADER = 'purser-request';
/** Header of an answer: compact JWS by the signer over everything in the answer. */
export const ANSWER_HEADER = 'purser-answer';

/** A body holds at most the two messages of key generation's round 3, about 0.5 MB. */
export const BODY_BYTES_MAX = 1024 * 1024;
/** How far the clocks of coordinator and signer may be apart, and so how long nonces are remembered. */
export const REQUEST_AGE_MAX_MS = 30_000;

const REQUEST_TYPE = 'purser-signer-request+jws';
const ANSWER_TYPE = 'purser-signer-answer+jws';

/**
 * Who may ask a signer for something: the coordinator (a worker of queue wallet-signing) for the daily work, the operator
 * (`npm run signers`) for what no worker may decide.
 */
export const ROLES = ['coordinator', 'operator'] as const;
export type Role = (typeof ROLES)[number];

const requestSchema = z.strictObject({
  role: z.enum(ROLES).default('coordinator'),
  to: z.int(),
  path: z.string().max(100),
  /** The run that this request is about; it ends when the request turns out to be bad. */
  session: z.string().regex(/^[0-9a-f]{64}$/),
  at_ms: z.int(),
  nonce: z.uuid(),
  body_sha256: z.string(),
});
const answerSchema = z.strictObject({ from: z.int(), nonce: z.uuid(), status: z.int(), body_sha256: z.string() });

export type RequestClaims = z.infer<typeof requestSchema>;

export function sha256(body: Uint8Array): string {
  return createHash('sha256').update(body).digest('base64url');
}

async function sign(key: CryptoKey, typ: string, claims: object): Promise<string> {
  return new CompactSign(Buffer.from(JSON.stringify(claims))).setProtectedHeader({ alg: 'EdDSA', typ }).sign(key);
}

async function verify<T>(key: CryptoKey, p: { typ: string; token: string; schema: z.ZodType<T> }): Promise<T> {
  const { payload, protectedHeader } = await compactVerify(p.token, key, { algorithms: ['EdDSA'] });
  if (protectedHeader.typ !== p.typ) throw new Error(`type is ${protectedHeader.typ}, expected ${p.typ}`);
  return p.schema.parse(JSON.parse(Buffer.from(payload).toString('utf8')));
}

/** Claims and signature of a request. */
export async function signRequest(
  key: CryptoKey,
  p: { role?: Role; to: Party; path: string; session: string; body: Uint8Array; now: Date },
): Promise<{ nonce: string; token: string }> {
  const nonce = randomUUID();
  const { role = 'coordinator', to, path, session } = p;
  const claims: RequestClaims = { role, to, path, session, at_ms: p.now.getTime(), nonce, body_sha256: sha256(p.body) };
  return { nonce, token: await sign(key, REQUEST_TYPE, claims) };
}

/**
 * Signature and shape only; the server checks receiver, path, time, nonce and body.
 * @param keys the public key of each role that this signer knows; the one of the role that the request claims counts
 * @throws when not authentic
 */
export async function verifyRequest(
  keys: { readonly [R in Role]: CryptoKey | undefined },
  token: string,
): Promise<RequestClaims> {
  const key = keys[claimedRole(token)];
  if (!key) throw new Error('this signer knows no key of that role');
  return verify(key, { typ: REQUEST_TYPE, token, schema: requestSchema });
}

/** Read before the signature is checked, and only to choose the key by which it is. */
function claimedRole(token: string): Role {
  const payload = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8');
  return requestSchema.parse(JSON.parse(payload)).role;
}

export async function signAnswer(
  key: CryptoKey,
  p: { from: Party; nonce: string; status: number; body: Uint8Array },
): Promise<string> {
  return sign(key, ANSWER_TYPE, { from: p.from, nonce: p.nonce, status: p.status, body_sha256: sha256(p.body) });
}

/** Insists that the answer is that signer's, to that request, and whole. @throws otherwise */
export async function verifyAnswer(
  key: CryptoKey,
  p: { token: string; from: Party; nonce: string; status: number; body: Uint8Array },
): Promise<void> {
  const claims = await verify(key, { typ: ANSWER_TYPE, token: p.token, schema: answerSchema });
  const expected = { from: p.from, nonce: p.nonce, status: p.status, body_sha256: sha256(p.body) };
  for (const name of ['from', 'nonce', 'status', 'body_sha256'] as const) {
    if (claims[name] !== expected[name]) throw new Error(`answer is for another ${name}`);
  }
}
