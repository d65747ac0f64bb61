import { createHash, randomBytes } from 'node:crypto';

/** 256 bits in base64url without padding. */
const shape = /^[A-Za-z0-9_-]{43}$/;

/** A new token for a link, and what is stored of it. */
export function makeApprovalToken(): { readonly token: string; readonly hash: Buffer } {
  const token = randomBytes(32).toString('base64url');
  return { token, hash: hashOf(token) };
}

/** What is stored of a token; undefined for text that can be none. 256 random bits need no salt and no slow hash. */
export function hashApprovalToken(text: string): Buffer | undefined {
  return shape.test(text) ? hashOf(text) : undefined;
}

/** Path of the page that a token opens, below the public URL of the api. */
export const approvalPath = (token: string): string => `/approve/${token}`;

const hashOf = (token: string) => createHash('sha256').update(token).digest();
