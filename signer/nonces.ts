import { Refusal } from './refusal.ts';
import { REQUEST_AGE_MAX_MS } from './wire.ts';

/** More requests than one signer can answer while a nonce must be remembered. */
const NONCES_MAX = 200_000;

/** Remembers every nonce for as long as its request could be sent again. */
export interface NonceRecord {
  /** @throws Refusal `replayed`, `busy` */
  use(nonce: string, now: Date): void;
}

export function createNonceRecord(): NonceRecord {
  const seen = new Map<string, number>();
  return {
    use(nonce, now) {
      const nowMs = now.getTime();
      for (const [old, untilMs] of seen) {
        if (untilMs > nowMs) break; // insertion order is time order
        seen.delete(old);
      }
      if (seen.has(nonce)) throw new Refusal('replayed', 'this request was sent before');
      if (seen.size >= NONCES_MAX) throw new Refusal('busy', 'too many requests at once');
      seen.set(nonce, nowMs + 2 * REQUEST_AGE_MAX_MS);
    },
  };
}
