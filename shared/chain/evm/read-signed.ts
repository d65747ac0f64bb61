import { type Hex, parseTransaction, type TransactionSerializedEIP1559 } from 'viem';

/** What signed bytes say, as far as it matters after signing. */
export interface SignedTransaction {
  readonly nonce: number;
  readonly to: string;
  readonly valueWei: bigint;
  readonly data: Hex;
  readonly maxFeePerGasWei: bigint;
  readonly maxPriorityFeePerGasWei: bigint;
}

/** Reads signed bytes of ours. @see EIP-1559 */
export function readSigned(raw: string): SignedTransaction {
  const read = parseTransaction(raw as TransactionSerializedEIP1559);
  return {
    nonce: read.nonce ?? 0,
    to: read.to ?? '0x',
    valueWei: read.value ?? 0n,
    data: read.data ?? '0x',
    maxFeePerGasWei: read.maxFeePerGas ?? 0n,
    maxPriorityFeePerGasWei: read.maxPriorityFeePerGas ?? 0n,
  };
}

/** What bytes that a wallet signed are for: they pay somebody, or only use their nonce up. */
export function purposeOf(raw: string, { from }: { from: string }): 'payment' | 'noop' {
  const { to, valueWei, data } = readSigned(raw);
  return to.toLowerCase() === from.toLowerCase() && valueWei === 0n && data === '0x' ? 'noop' : 'payment';
}
