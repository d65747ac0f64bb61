import { bech32, bech32m } from '@scure/base';
import type { BitcoinNetwork } from '../chains.ts';
import { base58check } from './base58check.ts';

const HASH_BYTES = 20;
const PROGRAM_BYTES = 32;

/**
 * What stands in an output that pays an address: one of the five kinds that wallets have (P2PKH, P2SH, P2WPKH, P2WSH,
 * P2TR). Sources: BIP-13, BIP-141, BIP-173, BIP-341, BIP-350.
 * @returns undefined: no address of this network, or not in its one written form
 */
export function outputScript(address: string, network: BitcoinNetwork): Uint8Array | undefined {
  try {
    return address.startsWith(`${network.prefix}1`) ? witnessScript(address, network) : hashScript(address, network);
  } catch {
    return undefined;
  }
}

/** The hash of the public key that a P2WPKH address pays; undefined: it is none of this network. */
export function publicKeyHashOf(address: string, network: BitcoinNetwork): Uint8Array | undefined {
  const script = outputScript(address, network);
  return script?.length === 2 + HASH_BYTES ? script.subarray(2) : undefined;
}

/** Version 0 is written in Bech32, version 1 in Bech32m; there are no others that anybody can spend from. */
function witnessScript(address: string, { prefix }: BitcoinNetwork): Uint8Array | undefined {
  const isTaproot = address.charAt(prefix.length + 1) === 'p';
  const code = isTaproot ? bech32m : bech32;
  const { prefix: found, words } = code.decode(address as `${string}1${string}`);
  const [version, ...data] = words;
  const program = code.fromWords(data);
  const lengths = isTaproot ? [PROGRAM_BYTES] : [HASH_BYTES, PROGRAM_BYTES];
  if (found !== prefix || version !== (isTaproot ? 1 : 0) || !lengths.includes(program.length)) return undefined;
  return Uint8Array.of(isTaproot ? 0x51 : 0x00, program.length, ...program);
}

function hashScript(address: string, { p2pkh, p2sh }: BitcoinNetwork): Uint8Array | undefined {
  const [version, ...hash] = base58check.decode(address);
  if (hash.length !== HASH_BYTES) return undefined;
  if (version === p2pkh) return Uint8Array.of(0x76, 0xa9, HASH_BYTES, ...hash, 0x88, 0xac);
  if (version === p2sh) return Uint8Array.of(0xa9, HASH_BYTES, ...hash, 0x87);
  return undefined;
}
