import { ECDH } from 'node:crypto';
import { HDKey } from '@scure/bip32';

/**
 * Public key of a child of an account's key, from public data alone. Source: BIP-32, public derivation (CKDpub).
 * @param p.publicKey uncompressed, 65 bytes in hex
 * @param p.chainCode 32 bytes in hex
 * @param p.path without hardened steps, for example `m/44/60/0/0/7`
 * @returns compressed, 33 bytes
 */
export function derivePublicKey(p: { publicKey: `0x${string}`; chainCode: `0x${string}`; path: string }): Uint8Array {
  const publicKey = convertPoint(bytesOf(p.publicKey), 'compressed');
  return new HDKey({ publicKey, chainCode: bytesOf(p.chainCode) }).derive(p.path).publicKey!;
}

/** The same point of secp256k1, written in 33 or 65 bytes. */
export function convertPoint(point: Uint8Array, format: 'compressed' | 'uncompressed'): Uint8Array {
  return new Uint8Array(ECDH.convertKey(point, 'secp256k1', undefined, undefined, format) as Buffer);
}

const bytesOf = (hex: `0x${string}`) => new Uint8Array(Buffer.from(hex.slice(2), 'hex'));
