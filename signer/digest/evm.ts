import { type Hex, isAddress, keccak256, serializeTransaction } from 'viem';
import { z } from 'zod';
import type { EvmTransaction } from '../../shared/domain/receipt.ts';
import { Refusal } from '../refusal.ts';

const UINT256_MAX = 2n ** 256n - 1n;
const UINT64_MAX = 2n ** 64n - 1n;
/** A token transfer has 68 bytes; anything near this limit is no payment. */
const DATA_BYTES_MAX = 1024;

const uint = (max: bigint) =>
  z
    .string()
    .regex(/^(0|[1-9][0-9]{0,77})$/, 'must be a decimal string without sign or leading zeros')
    .refine((s) => BigInt(s) <= max, 'is too large');
const hex = z.custom<Hex>((v) => typeof v === 'string' && /^0x([0-9a-f]{2})*$/.test(v), 'must be lower-case hex bytes');
const address = z.custom<Hex>((v) => typeof v === 'string' && isAddress(v), 'must be an address');

/** The only shape of an EVM transaction that a signer reads. Unknown members (an access list, blobs) are refused. */
export const evmTransactionSchema = z.strictObject({
  chainId: z.int().positive(),
  nonce: z.int().nonnegative(),
  to: address,
  valueWei: uint(UINT256_MAX),
  data: hex.refine((d) => d.length <= 2 + 2 * DATA_BYTES_MAX, 'is too long'),
  gas: uint(UINT64_MAX),
  maxFeePerGasWei: uint(UINT256_MAX),
  maxPriorityFeePerGasWei: uint(UINT256_MAX),
}) satisfies z.ZodType<EvmTransaction>;

/**
 * What is signed for an EIP-1559 transaction: keccak256(0x02 ‖ rlp([…, accessList = []])). Source: EIP-1559.
 * @throws Refusal `malformed` when the numbers cannot make a transaction
 */
export function digestOfEvmTransaction(tx: EvmTransaction): Hex {
  try {
    return keccak256(
      serializeTransaction({
        type: 'eip1559',
        chainId: tx.chainId,
        nonce: tx.nonce,
        to: tx.to,
        value: BigInt(tx.valueWei),
        data: tx.data,
        gas: BigInt(tx.gas),
        maxFeePerGas: BigInt(tx.maxFeePerGasWei),
        maxPriorityFeePerGas: BigInt(tx.maxPriorityFeePerGasWei),
      }),
    );
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.split('\n')[0] : 'unknown';
    throw new Refusal('malformed', `transaction cannot be serialized: ${why}`, { cause });
  }
}
