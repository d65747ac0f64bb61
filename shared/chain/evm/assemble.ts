import { type Hex, keccak256, parseSignature, serializeTransaction } from 'viem';
import type { EvmTransaction } from '../../domain/receipt.ts';

/**
 * Joins a transaction and its signature to the bytes that are sent. Pure.
 * @param signature r | s | v, 65 bytes, v 27 or 28 (or 0 or 1)
 * @returns the signed bytes and their hash, by which the chain knows them
 * @see EIP-1559, EIP-2718 type 2
 */
export function assemble({ transaction, signature }: { transaction: EvmTransaction; signature: Hex }): {
  raw: Hex;
  hash: Hex;
} {
  const raw = serializeTransaction(
    {
      type: 'eip1559',
      chainId: transaction.chainId,
      nonce: transaction.nonce,
      // The bytes carry no checksum; one that is wrong here would only be noticed after signing.
      to: transaction.to.toLowerCase() as Hex,
      value: BigInt(transaction.valueWei),
      data: transaction.data,
      gas: BigInt(transaction.gas),
      maxFeePerGas: BigInt(transaction.maxFeePerGasWei),
      maxPriorityFeePerGas: BigInt(transaction.maxPriorityFeePerGasWei),
    },
    parseSignature(signature),
  );
  return { raw, hash: keccak256(raw) };
}
