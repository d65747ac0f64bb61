import { accessTokenSeconds } from './access-tokens.ts';
import type { PrivateTokenKey } from './read-token-keys.ts';

/** Clocks differ, and a process takes up a new key only after some seconds. */
const marginSeconds = 600;

/**
 * Which keys are still needed: those that sign, or are to sign, and those by which a token may have been signed that has
 * not expired. A key signs until the next one begins to.
 */
export function keysStillNeeded(
  keys: readonly PrivateTokenKey[],
  { nowSeconds }: { nowSeconds: number },
): PrivateTokenKey[] {
  const newestFirst = keys.toSorted((one, other) => other.nbf - one.nbf);
  return newestFirst.filter((_, index) => {
    const successor = newestFirst[index - 1];
    return successor === undefined || nowSeconds <= successor.nbf + accessTokenSeconds + marginSeconds;
  });
}
