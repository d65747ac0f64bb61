import { base58check } from './base58check.ts';

/** Before the 20 bytes of every address. */
const PREFIX = 0x41;
const ADDRESS_BYTES = 21;

/** Reads `T…`. @returns its 21 bytes as Tron's messages have them; undefined: it is no address */
export function tronAddressBytes(address: string): Uint8Array | undefined {
  try {
    const bytes = base58check.decode(address);
    return bytes.length === ADDRESS_BYTES && bytes[0] === PREFIX ? bytes : undefined;
  } catch {
    return undefined;
  }
}

/** Writes `T…`. @param hash the last 20 bytes, which are those of an EVM address of the same key */
export function writeTronAddress(hash: Uint8Array): string {
  return base58check.encode(Uint8Array.of(PREFIX, ...hash));
}
