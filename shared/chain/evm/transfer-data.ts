import type { Hex } from 'viem';

/** First four bytes of keccak256("transfer(address,uint256)"). Source: ERC-20. */
const transferSelector = '0xa9059cbb';
const maxUint256 = (1n << 256n) - 1n;

/** Call data of an ERC-20 `transfer`. Source: ERC-20, contract ABI specification. */
export function transferData({ to, amountMinor }: { to: string; amountMinor: bigint }): Hex {
  if (!/^0x[0-9a-fA-F]{40}$/.test(to)) throw new RangeError(`${to} is not an address of 20 bytes.`);
  if (amountMinor < 0n || amountMinor > maxUint256)
    throw new RangeError(`${amountMinor} does not fit in an unsigned integer of 256 bits.`);
  const word = (hex: string) => hex.toLowerCase().padStart(64, '0');
  return `${transferSelector}${word(to.slice(2))}${word(amountMinor.toString(16))}`;
}
