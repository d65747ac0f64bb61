import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

export const KEK_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const ID_DIGITS = 16;

/**
 * One key-encryption key of a signer, behind the only two things that are done with it, so that a key in a hardware
 * module or a cloud KMS can take its place.
 */
export interface Kek {
  /** Names the key and says nothing about it; stored beside what is sealed under it. */
  readonly id: string;
  /** AES-256-GCM. `context` is authenticated, not stored. */
  seal(plain: Uint8Array, context: Uint8Array): Uint8Array;
  /** @throws when a single bit of `sealed` or `context` differs from what was sealed */
  open(sealed: Uint8Array, context: Uint8Array): Uint8Array;
}

/**
 * A KEK in memory. Sealed bytes are `nonce (12) ‖ ciphertext ‖ tag (16)`, nonces are random: fine for far more seals
 * than a signer makes in its life (NIST SP 800-38D: 2^32).
 */
export function createKek(key: Uint8Array): Kek {
  if (key.length !== KEK_BYTES)
    throw new Error(`the key-encryption key has ${key.length} bytes, it must have ${KEK_BYTES}`);
  return {
    id: createHash('sha256').update('purser key-encryption key\n').update(key).digest('hex').slice(0, ID_DIGITS),
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

/** The keys of a signer: one that seals, and those before it, which only open. */
export interface KeyEncryption {
  /** The current one first. */
  ids(): readonly string[];
  /** Puts others in their place, the current one first. */
  replace(keks: readonly Kek[]): void;
  seal(plain: Uint8Array, context: Uint8Array): { kekId: string; sealed: Uint8Array };
  /**
   * @param kekId empty where it was not noted: any of the keys may be it
   * @throws Error that says which key is missing, or that the bytes are not what was sealed
   */
  open(sealed: Uint8Array, context: Uint8Array, kekId: string): Uint8Array;
}

export function createKeyEncryption(first: readonly Kek[]): KeyEncryption {
  let keks = first;
  const current = (): Kek => {
    if (!keks[0]) throw new Error('there is no key-encryption key');
    return keks[0];
  };
  return {
    ids: () => keks.map(({ id }) => id),
    replace(others) {
      keks = others;
    },
    seal: (plain, context) => ({ kekId: current().id, sealed: current().seal(plain, context) }),
    open(sealed, context, kekId) {
      const possible = kekId === '' ? keks : keks.filter(({ id }) => id === kekId);
      let cause: unknown;
      for (const kek of possible) {
        try {
          return kek.open(sealed, context);
        } catch (error) {
          cause = error;
        }
      }
      if (possible.length > 0) throw new Error('it is damaged, or sealed under another key-encryption key', { cause });
      throw new Error(`it is sealed under key-encryption key ${kekId}, which is not among ${keks.map((k) => k.id)}`);
    },
  };
}
