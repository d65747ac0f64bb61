import { randomBytes } from 'node:crypto';

/** Id of a run: 32 random bytes in hex, never used twice. */
export function newSession(): string {
  return randomBytes(32).toString('hex');
}
