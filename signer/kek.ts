import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * The key-encryption key of one signer, behind the only two things that are done with it, so that a key in a hardware
 * module or a cloud KMS can take its place.
 */
export interface KeyEncryption {
  /** AES-256-GCM. `context` is authenticated, not stored. */
  seal(plain: Uint8Array, context: Uint8Array): Uint8Array;
  /** @throws when a single bit of `sealed` or `context` differs from what was sealed */
  open(sealed: Uint8Array, context: Uint8Array): Uint8Array;
}

/**
 * A KEK in memory. Sealed bytes are `nonce (12) ‖ ciphertext ‖ tag (16)`, nonces are random: fine for far more seals
 * than a signer makes in its life (NIST SP 800-38D: 2^32).
 */
export function createKeyEncryption(key: Uint8Array): KeyEncryption {
  if (key.length !== KEY_BYTES)
    throw new Error(`the key-encryption key has ${key.length} bytes, it must have ${KEY_BYTES}`);
  return {
    seal(plain, context) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
      cipher.setAAD(context);
      return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, context) {
      if (sealed.length < NONCE_BYTES + TAG_BYTES) throw new Error('sealed bytes are too short');
      const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(context);
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
    },
  };
}
