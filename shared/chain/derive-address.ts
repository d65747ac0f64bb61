import { ECDH } from 'node:crypto';
import { HDKey } from '@scure/bip32';
import { type Address, type Hex, hexToBytes } from 'viem';
import { publicKeyToAddress } from 'viem/accounts';

/**
 * Address of a child of an account's key, from public data alone. Source: BIP-32, public derivation (CKDpub).
 * @param publicKey uncompressed, 65 bytes
 * @param chainCode 32 bytes
 * @param path without hardened steps, for example `m/44/60/0/0/7`
 * @returns the address with its EIP-55 checksum
 */
export function deriveEvmAddress(p: { publicKey: Hex; chainCode: Hex; path: string }): Address {
  const point = hexToBytes(p.publicKey);
  const master = new HDKey({ publicKey: convertPoint(point, 'compressed'), chainCode: hexToBytes(p.chainCode) });
  const child = convertPoint(master.derive(p.path).publicKey!, 'uncompressed');
  return publicKeyToAddress(`0x${Buffer.from(child).toString('hex')}`);
}

function convertPoint(point: Uint8Array, format: 'compressed' | 'uncompressed'): Uint8Array {
  return new Uint8Array(ECDH.convertKey(point, 'secp256k1', undefined, undefined, format) as Buffer);
}
