import { createHash } from 'node:crypto';
import { ripemd160 } from '@noble/hashes/legacy.js';
import { bech32 } from '@scure/base';
import { hexToBytes } from 'viem';
import { publicKeyToAddress } from 'viem/accounts';
import { bitcoinNetworkOf, isTronChain } from './chains.ts';
import { writeTronAddress } from './digest/tron-address.ts';

/** The shapes of wallets' addresses: of EVM chains, of Bitcoin chains (P2WPKH), of Tron. */
export const walletAddressPattern =
  /^(0x[0-9a-fA-F]{40}|(bc|tb|bcrt)1q[02-9ac-hj-np-z]{38}|T[1-9A-HJ-NP-Za-km-z]{33})$/;

/**
 * The wallet of a key on a chain: on EVM chains with its EIP-55 checksum, on Bitcoin chains P2WPKH (BIP-141, BIP-173), on
 * Tron `T…`.
 * @param p.publicKey uncompressed, 65 bytes @param p.chain CAIP-2 id
 */
export function walletAddress({ publicKey, chain }: { publicKey: Uint8Array; chain: string }): string {
  const network = bitcoinNetworkOf(chain);
  if (network) {
    const hash = ripemd160(createHash('sha256').update(compress(publicKey)).digest());
    return bech32.encode(network.prefix, [0, ...bech32.toWords(hash)]);
  }
  const evm = publicKeyToAddress(`0x${Buffer.from(publicKey).toString('hex')}`);
  return isTronChain(chain) ? writeTronAddress(hexToBytes(evm)) : evm;
}

/** An address as records and limits have it. Only of EVM addresses the case of letters says nothing. */
export function walletName(address: string): string {
  return address.startsWith('0x') ? address.toLowerCase() : address;
}

/** 33 bytes: whether y is odd, and x. Source: SEC 1, 2.3.3. */
function compress(publicKey: Uint8Array): Uint8Array {
  return Uint8Array.of(2 + (publicKey[64]! & 1), ...publicKey.subarray(1, 33));
}
