import type { Hex } from 'viem';

/** First four bytes of keccak256("transfer(address,uint256)") and keccak256("balanceOf(address)"). Source: ERC-20. */
const transferSelector = '0xa9059cbb';
const balanceOfSelector = '0x70a08231';
const maxUint256 = (1n << 256n) - 1n;

/** Call data of an ERC-20 `transfer`. Source: ERC-20, contract ABI specification. */
export function transferData({ to, amountMinor }: { to: string; amountMinor: bigint }): Hex {
  if (amountMinor < 0n || amountMinor > maxUint256)
    throw new RangeError(`${amountMinor} does not fit in an unsigned integer of 256 bits.`);
  return `${transferSelector}${addressWord(to)}${word(amountMinor.toString(16))}`;
}

/** Call data of an ERC-20 `balanceOf`. Source: ERC-20, contract ABI specification. */
export function balanceOfData({ owner }: { owner: string }): Hex {
  return `${balanceOfSelector}${addressWord(owner)}`;
}

function addressWord(address: string): string {
  if (!/^0x[0-9a-fA-F]{40}$/.test(address)) throw new RangeError(`${address} is not an address of 20 bytes.`);
  return word(address.slice(2).toLowerCase());
}

function word(hex: string): string {
  return hex.padStart(64, '0');
}
