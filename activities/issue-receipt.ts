import type { WalletRow } from '../shared/db/agents.ts';
import type { TransactionRow } from '../shared/db/transactions.ts';
import type { PaymentIntent, TransactionPayload } from '../shared/domain/receipt.ts';
import { signReceipt } from '../shared/receipt.ts';

/** What the signing step needs, complete: it has no database. */
export interface Allotment<Payload = TransactionPayload> {
  readonly keyId: string;
  readonly path: string;
  readonly address: string;
  readonly payload: Payload;
  readonly receipt: string;
}

/** Ed25519 private key of the policy step. */
export type PolicyKey = Parameters<typeof signReceipt>[0];

/** A receipt is good for as long as signing may reasonably take, and no longer. */
const receiptLifetimeSeconds = 600;

/** What a payment is to do. */
export function intentOf(row: TransactionRow, maxFeeMinor: string): PaymentIntent {
  return {
    chain: row.chain,
    asset: row.asset,
    to: row.to_address as PaymentIntent['to'],
    amount_minor: row.amount_minor,
    max_fee_minor: maxFeeMinor,
  };
}

/**
 * Allows the signers to sign a payload for a payment.
 * @param purpose whether the payload is the payment itself, or uses its nonce up by a transfer of nothing to itself
 */
export async function receiptFor(
  policyKey: PolicyKey,
  {
    row,
    wallet,
    payload,
    now,
    purpose = 'payment',
  }: { row: TransactionRow; wallet: WalletRow; payload: TransactionPayload; now: Date; purpose?: 'payment' | 'noop' },
): Promise<Allotment> {
  const { gas, maxFeePerGasWei } = payload.transaction;
  const maxFeeMinor = (BigInt(gas) * BigInt(maxFeePerGasWei)).toString();
  const address = wallet.address as PaymentIntent['to'];
  const iat = Math.floor(now.getTime() / 1000);
  const receipt = await signReceipt(policyKey, {
    account_id: row.account_id,
    agent_id: row.agent_id,
    wallet: { key_id: wallet.account_key_id, path: wallet.path, address },
    transaction_id: row.id,
    decision_id: row.decision_id!,
    intent:
      purpose === 'payment'
        ? intentOf(row, maxFeeMinor)
        : { chain: row.chain, asset: 'native', to: address, amount_minor: '0', max_fee_minor: maxFeeMinor },
    iat,
    exp: iat + receiptLifetimeSeconds,
  });
  return { keyId: wallet.account_key_id, path: wallet.path, address: wallet.address, payload, receipt };
}
