import type { Hex } from 'viem';
import { z } from 'zod';
import type { SignPayload } from '../../shared/domain/receipt.ts';
import { authorizationSchema, digestOfAuthorization } from './authorization.ts';
import { digestOfEvmTransaction, evmTransactionSchema } from './evm.ts';

/** Everything that a signer reads and may sign, by kind. */
export const payloadSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('evm-transaction'), transaction: evmTransactionSchema }),
  z.strictObject({ kind: z.literal('transfer-authorization'), authorization: authorizationSchema }),
]) satisfies z.ZodType<SignPayload>;

/** The digest that is signed for a payload; each side computes it itself. @throws Refusal `malformed` */
export function digestOf(payload: SignPayload): Hex {
  return payload.kind === 'evm-transaction'
    ? digestOfEvmTransaction(payload.transaction)
    : digestOfAuthorization(payload.authorization);
}
