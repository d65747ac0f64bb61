import { z } from 'zod';
import type { SignPayload } from '../shared/domain/receipt.ts';
import { noteInLog } from '../shared/log-context.ts';
import { ReceiptError, verifyReceipt } from '../shared/receipt.ts';
import { walletAddressPattern } from './address.ts';
import { coinTypeOf } from './chains.ts';
import { checkIntent, checkWallet } from './check-intent.ts';
import type { SignerContext } from './context.ts';
import { chainOf, payloadSchema } from './digest/payload.ts';
import { refuseBanned } from './fault.ts';
import type { WalletOwner } from './freeze-book.ts';
import { PARTIES } from './parties.ts';
import type { SlotUse } from './records.ts';
import { Refusal } from './refusal.ts';
import { requireRecords } from './require-records.ts';
import { useOf } from './slot.ts';

/** The furthest that a transaction's expiration may be away by this signer's clock: until then its payment gets no other one. */
const EXPIRATION_MS_MAX = 60 * 60 * 1000;

/** What both signers of a pair are asked. */
export const signRequestShape = {
  keyId: z.string().min(1).max(128),
  path: z.string().regex(/^m\/44\/(60|0|1|195)\/0\/0\/(0|[1-9]\d{0,8})$/, 'must be m/44/<coin>/0/0/<index>'),
  address: z.string().regex(walletAddressPattern, 'must be the address of a wallet'),
  payload: payloadSchema,
  receipt: z.string().max(8000),
  counterparty: z.literal(PARTIES),
};
const signRequestSchema = z.strictObject(signRequestShape);

/**
 * Everything that a signer checks by itself, before anything is computed: receipt, wallet, intent, the pair, the records.
 * Whether that is frozen is asked afterwards: what was signed before is given again in any case.
 * @returns what the signature would be recorded as, and whose wallet it is
 * @throws Refusal
 */
export async function checkRequest(
  context: SignerContext,
  body: z.infer<typeof signRequestSchema>,
): Promise<{ use: SlotUse; owner: WalletOwner }> {
  const { keyId, path, address, payload, counterparty } = body;
  checkPath(path, payload);
  checkExpiration(payload, context.now());
  const receipt = await verifyReceipt(context.policyKey, { receipt: body.receipt, now: context.now() }).catch(
    (error) => {
      throw error instanceof ReceiptError ? new Refusal(error.reason, error.message, { cause: error }) : error;
    },
  );
  noteInLog({ transaction_id: receipt.transaction_id });
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
  return { use, owner: { accountId: receipt.account_id, agentId: receipt.agent_id } };
}

/** A key of one family's path signs nothing of another's: the same wallet is one thing on one kind of chain. */
function checkPath(path: string, payload: SignPayload): void {
  const chain = chainOf(payload);
  const coinType = coinTypeOf(chain);
  if (path.startsWith(`m/44/${coinType}/`)) return;
  throw new Refusal(
    'malformed',
    `path ${path} has no wallet of chain ${chain}; it must be m/44/${coinType}/0/0/<index>`,
  );
}

function checkExpiration(payload: SignPayload, now: Date): void {
  if (payload.kind !== 'tron-transaction') return;
  const { expirationMs } = payload.transaction;
  if (expirationMs <= now.getTime() + EXPIRATION_MS_MAX) return;
  const at = new Date(expirationMs);
  const when = Number.isNaN(at.getTime()) ? `${expirationMs} ms` : at.toISOString();
  throw new Refusal('malformed', `expiration ${when} is more than an hour ahead of this signer's clock`);
}
