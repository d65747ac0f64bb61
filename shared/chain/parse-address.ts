import { type Address, checksumAddress, zeroAddress } from 'viem';
import type { ChainFamily } from './registry.ts';

/** Why a string is not an address that may be paid. */
export type AddressFault = 'malformed' | 'checksum' | 'zero';

const evmShape = /^0x[0-9a-fA-F]{40}$/;

/**
 * Reads an address of a chain family and gives it its one written form, so that equal addresses are equal strings.
 * EVM: by value; all lower or all upper case carries no checksum, mixed case must carry the right one. Source: EIP-55.
 * @returns the checksummed address, or what is wrong
 */
export function parseAddress(text: string, { family }: { family: ChainFamily }): Address | AddressFault {
  switch (family) {
    case 'evm':
      return parseEvmAddress(text);
  }
}

function parseEvmAddress(text: string): Address | AddressFault {
  if (!evmShape.test(text)) return 'malformed';
  const digits = text.slice(2);
  const address = checksumAddress(text.toLowerCase() as Address);
  const mixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
  if (mixed && text !== address) return 'checksum';
  return address === zeroAddress ? 'zero' : address;
}
