import { sha256 } from '@noble/hashes/sha2.js';
import { base58, bech32, bech32m, createBase58check } from '@scure/base';
import { Address, OutScript } from '@scure/btc-signer';
import type { ReadAddress } from '../family.ts';
import { type BitcoinNetwork, bitcoinNetworks, networkOf } from './network.ts';

const base58check = createBase58check(sha256);

/** A version byte, a hash of 20 bytes, a checksum of 4. */
const base58Bytes = 25;

/** Bytes of the programs that are paid, by SegWit version. Sources: BIP-141 (0), BIP-341 (1). */
const programBytes: Readonly<Record<number, readonly number[]>> = { 0: [20, 32], 1: [32] };

const kinds = 'P2PKH, P2SH, P2WPKH, P2WSH or P2TR';

type Fault = Extract<ReadAddress, { fault: string }>;

const malformed: Fault = {
  fault: 'malformed',
  sentence: `must be a Bitcoin address (${kinds}), such as one that begins with bc1, 1 or 3.`,
};

/**
 * Reads a Bitcoin address by value and writes it in its one form: SegWit addresses in lower case.
 * @param chain CAIP-2 id of the chain on which it is to be paid
 * @see BIP-13, BIP-173, BIP-350
 */
export function parseBitcoinAddress(text: string, chain: string): ReadAddress {
  const network = networkOf(chain);
  const read = /^(bc|tb|bcrt)1/i.test(text) ? readSegwit(text) : readBase58(text);
  if ('fault' in read) return read;
  const { address, payload } = read;
  if (!read.networks.includes(network))
    return {
      fault: 'wrong_network',
      sentence: `is an address of ${read.networks.map(({ name }) => name).join(' or ')}; this is ${network.name}.`,
    };
  if (payload.every((byte) => byte === 0))
    return { fault: 'zero', sentence: 'stands for zeros, of which nobody has the key: what is sent there is lost.' };
  return isPayable(address, network)
    ? { address }
    : { fault: 'malformed', sentence: 'is a Taproot address without a key (BIP-341): what is sent there is lost.' };
}

/** The script that an output to an address has. @param address as `parseBitcoinAddress` gives it */
export function scriptOf(address: string, chain: string): Uint8Array {
  return OutScript.encode(Address(networkOf(chain)).decode(address));
}

interface Decoded {
  readonly address: string;
  readonly networks: readonly BitcoinNetwork[];
  /** The hash or the key that it stands for. */
  readonly payload: Uint8Array;
}

function readSegwit(text: string): Decoded | Fault {
  const address = text.toLowerCase();
  if (text !== address && text !== text.toUpperCase())
    return { fault: 'malformed', sentence: 'must be all in lower case, or all in upper case (BIP-173).' };
  if (!/^[a-z]+1[02-9ac-hj-np-z]{7,}$/.test(address) || address.length > 90) return malformed;
  const byEncoding = [bech32.decodeUnsafe(address), bech32m.decodeUnsafe(address)];
  const decoded = byEncoding.find((each) => each !== undefined);
  if (!decoded) return wrongChecksum('BIP-173');
  const [version = 0, ...words] = decoded.words;
  // Version 0 has the first checksum, all later ones the second: neither protects the other's addresses.
  if (decoded !== byEncoding[version === 0 ? 0 : 1]) return wrongChecksum('BIP-350');
  const payload = bech32.fromWordsUnsafe(words);
  if (!payload) return malformed;
  if (!programBytes[version]?.includes(payload.length))
    return {
      fault: 'malformed',
      sentence: `has ${payload.length} bytes of SegWit version ${version}, which nobody pays yet; it must be ${kinds}.`,
    };
  return { address, networks: bitcoinNetworks.filter((each) => each.bech32 === decoded.prefix), payload };
}

function readBase58(text: string): Decoded | Fault {
  const bytes = /^[1-9A-HJ-NP-Za-km-z]{25,35}$/.test(text) ? base58.decode(text) : new Uint8Array();
  const networks = bitcoinNetworks.filter(({ pubKeyHash, scriptHash }) =>
    [pubKeyHash, scriptHash].includes(bytes[0] ?? -1),
  );
  if (bytes.length !== base58Bytes || networks.length === 0) return malformed;
  try {
    return { address: text, networks, payload: base58check.decode(text).subarray(1) };
  } catch {
    return wrongChecksum('base58check');
  }
}

function wrongChecksum(rule: string): Fault {
  return { fault: 'checksum', sentence: `has a wrong checksum (${rule}): a character is mistyped. Copy it again.` };
}

/** A Taproot output is a point of the curve; where no point has its number, nobody can ever spend it. */
function isPayable(address: string, network: BitcoinNetwork): boolean {
  try {
    OutScript.encode(Address(network).decode(address));
    return true;
  } catch {
    return false;
  }
}
