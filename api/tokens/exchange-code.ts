import { createHash, randomBytes } from 'node:crypto';

/** By which scanners for secrets, and logs, know one. */
const prefix = 'purser_code_';
/** 256 random bits in base64url. */
const shape = new RegExp(`^${prefix}[A-Za-z0-9_-]{43}$`);

/** Seconds between the end of a sign-in and its exchange for tokens. */
export const exchangeCodeSeconds = 60;

export function newExchangeCode(): string {
  return prefix + randomBytes(32).toString('base64url');
}

/** Whether a string can be an exchange code; one that cannot be need not be looked up. */
export function isExchangeCode(text: string): boolean {
  return shape.test(text);
}

/** What is stored of an exchange code. 256 random bits need no salt and no slow hash. */
export function hashExchangeCode(code: string): Buffer {
  return createHash('sha256').update(code).digest();
}
