import { sha256 } from '@noble/hashes/sha2.js';
import { createBase58check } from '@scure/base';
import { keccak256 } from 'viem';
import type { ReadAddress } from '../family.ts';

/** First byte of every address of Tron. Source: java-tron, `Constant.ADD_PRE_FIX_BYTE_MAINNET`; Nile has the same. */
const prefix = 0x41;
const lengthBytes = 21;
const base58check = createBase58check(sha256);

/** Base58 without what looks alike. 21 bytes and a checksum of four are at most 35 digits. */
const base58 = /^[1-9A-HJ-NP-Za-km-z]{26,35}$/;
const hexForm = /^(?:0x)?41[0-9a-fA-F]{40}$/;

/**
 * Reads an address of Tron in its one written form, base58check of 21 bytes.
 * @see https://developers.tron.network/docs/account#account-address-format
 */
export function parseTronAddress(text: string): ReadAddress {
  if (hexForm.test(text))
    return {
      fault: 'malformed',
      sentence: 'is in hexadecimal form (41…), which has no checksum. Give it in base58, as wallets show it (T…).',
    };
  if (!base58.test(text))
    return { fault: 'malformed', sentence: 'must be T and 33 more base58 digits, as wallets show it.' };
  const bytes = decode(text);
  if (!bytes) return { fault: 'checksum', sentence: 'has a wrong checksum: a digit is mistyped. Copy it again.' };
  if (bytes.length !== lengthBytes || bytes[0] !== prefix)
    return { fault: 'wrong_network', sentence: 'is an address of another network: those of Tron begin with T.' };
  if (bytes.every((byte, at) => at === 0 || byte === 0))
    return { fault: 'zero', sentence: 'is the zero address: what is sent there is lost.' };
  return { address: text };
}

/**
 * The 21 bytes of an address, the prefix included.
 * @throws RangeError when it is none
 */
export function tronAddressBytes(address: string): Uint8Array {
  const bytes = base58.test(address) ? decode(address) : undefined;
  if (bytes?.length !== lengthBytes || bytes[0] !== prefix) throw new RangeError(`${address} is no address of Tron.`);
  return bytes;
}

/** @param bytes 21, the prefix included @throws RangeError when they are no address */
export function writeTronAddress(bytes: Uint8Array): string {
  if (bytes.length !== lengthBytes || bytes[0] !== prefix)
    throw new RangeError(`${Buffer.from(bytes).toString('hex')} is no address of Tron: these are 21 bytes from 41 on.`);
  return base58check.encode(bytes);
}

/** 0x41 and the last 20 bytes of the key's Keccak-256 hash. @param publicKey uncompressed, 65 bytes */
export function addressOfPublicKey(publicKey: Uint8Array): string {
  const hash = keccak256(publicKey.subarray(1), 'bytes');
  return writeTronAddress(Uint8Array.of(prefix, ...hash.subarray(-20)));
}

function decode(text: string): Uint8Array | undefined {
  try {
    return base58check.decode(text);
  } catch {
    return undefined;
  }
}
