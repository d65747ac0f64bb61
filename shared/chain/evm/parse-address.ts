import { type Address, checksumAddress, zeroAddress } from 'viem';
import type { ReadAddress } from '../family.ts';

const shape = /^0x[0-9a-fA-F]{40}$/;

/**
 * Reads an EVM address by value: all lower or all upper case carries no checksum, mixed case must carry the right one.
 * @returns the checksummed address, or what is wrong
 * @see EIP-55
 */
export function parseEvmAddress(text: string): ReadAddress {
  if (!shape.test(text)) return { fault: 'malformed', sentence: 'must be 0x and 40 hexadecimal digits.' };
  const digits = text.slice(2);
  const address = checksumAddress(text.toLowerCase() as Address);
  const mixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
  if (mixed && text !== address)
    return { fault: 'checksum', sentence: 'has a wrong checksum (EIP-55): a digit is mistyped. Copy it again.' };
  if (address === zeroAddress) return { fault: 'zero', sentence: 'is the zero address: what is sent there is lost.' };
  return { address };
}
