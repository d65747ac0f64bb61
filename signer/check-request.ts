import { z } from 'zod';
import { ReceiptError, verifyReceipt } from '../shared/receipt.ts';
import { checkIntent, checkWallet } from './check-intent.ts';
import type { SignerContext } from './context.ts';
import { payloadSchema } from './digest/payload.ts';
import { refuseBanned } from './fault.ts';
import { PARTIES } from './parties.ts';
import type { SlotUse } from './records.ts';
import { Refusal } from './refusal.ts';
import { requireRecords } from './require-records.ts';
import { useOf } from './slot.ts';

/** What both signers of a pair are asked. */
export const signRequestShape = {
  keyId: z.string().min(1).max(128),
  path: z.string().regex(/^m\/44\/60\/0\/0\/(0|[1-9]\d{0,8})$/, 'must be m/44/60/0/0/<index>'),
  address: z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'must be a 20-byte address'),
  payload: payloadSchema,
  receipt: z.string().max(8000),
  counterparty: z.literal(PARTIES),
};
const signRequestSchema = z.strictObject(signRequestShape);

/**
 * Everything that a signer checks by itself, before anything is computed: receipt, wallet, intent, the pair, the records.
 * @returns what the signature would be recorded as
 * @throws Refusal
 */
export async function checkRequest(context: SignerContext, body: z.infer<typeof signRequestSchema>): Promise<SlotUse> {
  const { keyId, path, address, payload, counterparty } = body;
  const receipt = await verifyReceipt(context.policyKey, { receipt: body.receipt, now: context.now() }).catch(
    (error) => {
      throw error instanceof ReceiptError ? new Refusal(error.reason, error.message, { cause: error }) : error;
    },
  );
  checkWallet(receipt.wallet, { keyId, path, address });
  checkIntent(receipt.intent, { payload, wallet: receipt.wallet.address });
  if (counterparty === context.party) throw new Refusal('malformed', 'counterparty must be another signer');
  refuseBanned(context, { keyId, party: counterparty });
  if (context.store.stateOf(keyId) !== 'active') {
    throw new Refusal('unknown_key', `there is no key ${keyId} that all three signers have stored`);
  }
  requireRecords(context, keyId);
  const use = useOf({
    ...{ keyId, payload, address: receipt.wallet.address },
    ...{ transactionId: receipt.transaction_id, decisionId: receipt.decision_id, replaces: receipt.replaces ?? [] },
  });
  context.store.checkUse(use);
  return use;
}
