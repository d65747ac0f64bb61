import { createHash } from 'node:crypto';
import { createBase58check } from '@scure/base';

/** Version and payload with the first 4 bytes of their double SHA-256; Bitcoin's and Tron's alike. */
export const base58check = createBase58check(
  (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest()),
);
