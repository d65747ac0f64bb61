import { createHash, randomBytes } from 'node:crypto';
import { CompactEncrypt, compactDecrypt } from 'jose';

/** By which scanners for secrets know one. */
const prefix = 'purser_refresh_';
/** 256 random bits in base64url. */
const shape = new RegExp(`^${prefix}[A-Za-z0-9_-]{43}$`);

/** Seconds that a refresh token is good for: 30 days. */
export const refreshTokenSeconds = 30 * 24 * 60 * 60;

export function newRefreshToken(): string {
  return prefix + randomBytes(32).toString('base64url');
}

/** Whether a string can be a refresh token; one that cannot be need not be looked up. */
export function isRefreshToken(text: string): boolean {
  return shape.test(text);
}

/** What is stored of a refresh token. 256 random bits need no salt and no slow hash. */
export function hashRefreshToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** Its successor, so that only whoever holds the token itself can read it (JWE, RFC 7516). */
export async function sealSuccessor(successor: string, { token }: { token: string }): Promise<string> {
  return new CompactEncrypt(Buffer.from(successor))
    .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
    .encrypt(sealingKey(token));
}

/** @throws Error where it was not sealed by this token */
export async function openSuccessor(sealed: string, { token }: { token: string }): Promise<string> {
  const { plaintext } = await compactDecrypt(sealed, sealingKey(token), {
    keyManagementAlgorithms: ['dir'],
    contentEncryptionAlgorithms: ['A256GCM'],
  });
  return Buffer.from(plaintext).toString();
}

/** Another hash than the one that is stored: from that, nobody gets this one. */
function sealingKey(token: string): Buffer {
  return createHash('sha256').update(`purser refresh token successor\n${token}`).digest();
}
