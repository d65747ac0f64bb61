import { createECDH } from 'node:crypto';
import type { KeySharePoint } from './key-share.ts';

/** Order of secp256k1 (SEC 2, section 2.4.1). */
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const KEY_BYTES = 32;

const mod = (value: bigint): bigint => ((value % ORDER) + ORDER) % ORDER;

/** Fermat: the order is a prime. */
function inverse(value: bigint): bigint {
  let result = 1n;
  let base = mod(value);
  for (let exponent = ORDER - 2n; exponent > 0n; exponent >>= 1n) {
    if (exponent & 1n) result = mod(result * base);
    base = mod(base * base);
  }
  return result;
}

/**
 * Puts a private key together from the shares of two parties: the value at zero of the line through both points
 * (Lagrange), which the service itself never computes.
 * @param p.publicKey uncompressed, 65 bytes: what comes out is checked against it
 * @returns 32 bytes, secret: clear them after use
 * @throws Error when the shares do not make this key
 */
export function combineShares(p: {
  shares: readonly [KeySharePoint, KeySharePoint];
  publicKey: Uint8Array;
}): Uint8Array<ArrayBuffer> {
  const [a, b] = p.shares;
  if (a.party === b.party) throw new Error(`both shares are of signer ${a.party}`);
  const [x, y] = [BigInt(a.party), BigInt(b.party)];
  const secret = mod(a.value * y * inverse(y - x) + b.value * x * inverse(x - y));
  const key = Uint8Array.from(Buffer.from(secret.toString(16).padStart(2 * KEY_BYTES, '0'), 'hex'));
  if (Buffer.from(p.publicKey).equals(publicKeyOf(key))) return key;
  key.fill(0);
  throw new Error('the two shares do not make this key: they are not of the same run, or one is damaged');
}

function publicKeyOf(key: Uint8Array): Buffer {
  const ecdh = createECDH('secp256k1');
  try {
    ecdh.setPrivateKey(key);
    return ecdh.getPublicKey();
  } catch {
    return Buffer.alloc(0);
  }
}
