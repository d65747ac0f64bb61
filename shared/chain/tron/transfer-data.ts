import { tronAddressBytes, writeTronAddress } from './address.ts';

/** First four bytes of keccak256("transfer(address,uint256)"). Source: TRC-20, which is ERC-20. */
const transferSelector = 'a9059cbb';
const maxUint256 = (1n << 256n) - 1n;

/** Wallets of Java put the prefix of Tron's addresses before the 20 bytes; contracts do not look at it. */
const transferCall = /^a9059cbb0{22}(?:00|41)([0-9a-f]{40})([0-9a-f]{64})$/;

/**
 * Call data of a TRC-20 `transfer`, in hex without `0x`. Source: contract ABI specification.
 * @throws RangeError when the amount does not fit
 */
export function transferData({ to, amountMinor }: { to: string; amountMinor: bigint }): string {
  if (amountMinor < 0n || amountMinor > maxUint256)
    throw new RangeError(`${amountMinor} does not fit in an unsigned integer of 256 bits.`);
  return transferSelector + addressWord(to) + amountMinor.toString(16).padStart(64, '0');
}

/** An address as an argument of a contract: its 20 bytes without the prefix, in 32. In hex without `0x`. */
export function addressWord(address: string): string {
  return Buffer.from(tronAddressBytes(address).subarray(1)).toString('hex').padStart(64, '0');
}

/** What call data of a TRC-20 `transfer` says; undefined for other calls. @param data hex without `0x`, in lower case */
export function readTransferData(data: string): { to: string; amountMinor: bigint } | undefined {
  const [, to, amount] = transferCall.exec(data) ?? [];
  if (to === undefined) return undefined;
  return { to: writeTronAddress(Buffer.from(`41${to}`, 'hex')), amountMinor: BigInt(`0x${amount}`) };
}
