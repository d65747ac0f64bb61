import type { Hex } from 'viem';
import { z } from 'zod';
import type { SignPayload } from '../../shared/domain/receipt.ts';
import { authorizationSchema, digestOfAuthorization } from './authorization.ts';
import { bitcoinInputSchema, digestOfBitcoinInput } from './bitcoin.ts';
import { digestOfEvmTransaction, evmTransactionSchema } from './evm.ts';
import { digestOfTronTransaction, tronTransactionSchema } from './tron.ts';

/** Everything that a signer reads and may sign, by kind. */
export const payloadSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('evm-transaction'), transaction: evmTransactionSchema }),
  z.strictObject({ kind: z.literal('transfer-authorization'), authorization: authorizationSchema }),
  bitcoinInputSchema,
  z.strictObject({ kind: z.literal('tron-transaction'), transaction: tronTransactionSchema }),
]) satisfies z.ZodType<SignPayload>;

/**
 * The digest that is signed for a payload; each side computes it itself.
 * @param wallet address of the wallet that signs
 * @throws Refusal `malformed`
 */
export function digestOf(payload: SignPayload, wallet: string): Hex {
  switch (payload.kind) {
    case 'evm-transaction':
      return digestOfEvmTransaction(payload.transaction);
    case 'transfer-authorization':
      return digestOfAuthorization(payload.authorization);
    case 'bitcoin-input':
      return digestOfBitcoinInput(payload, wallet);
    case 'tron-transaction':
      return digestOfTronTransaction(payload.transaction);
  }
}

/** CAIP-2 id of the chain that it is for. */
export function chainOf(payload: SignPayload): string {
  switch (payload.kind) {
    case 'evm-transaction':
      return `eip155:${payload.transaction.chainId}`;
    case 'transfer-authorization':
      return `eip155:${payload.authorization.domain.chainId}`;
    case 'bitcoin-input':
    case 'tron-transaction':
      return payload.transaction.chain;
  }
}
