import { z } from 'zod';
import { noteInLog } from '../shared/log-context.ts';
import type { SignerContext } from './context.ts';
import { requireActiveKey } from './owner-key.ts';
import { requireRecords } from './require-records.ts';

export const endUnsignedSchema = z.strictObject({
  keyId: z.string().min(1).max(128),
  /** See shared/domain/slot.ts. */
  slot: z.string().min(1).max(200),
  transactionId: z.string().min(1).max(128),
});

/**
 * Says whether this signer knows of neither a payment nor the nonce that it was given; then it never signs the payment.
 * Two signers that say so make it certain that no signature of it exists or ever will: each takes two of the three.
 * @throws Refusal `unknown_key`, `records_missing`
 */
export async function endUnsigned(
  context: SignerContext,
  { body }: { body: z.infer<typeof endUnsignedSchema> },
): Promise<{ isUnsigned: boolean }> {
  noteInLog({ transaction_id: body.transactionId });
  requireActiveKey(context, body.keyId);
  requireRecords(context, body.keyId);
  return { isUnsigned: context.store.endUnsigned(body) };
}
