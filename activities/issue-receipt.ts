import { familyOfPayload } from '../shared/chain/families.ts';
import type { WalletRow } from '../shared/db/agents.ts';
import type { TransactionRow } from '../shared/db/transactions.ts';
import type { X402PaymentRow } from '../shared/db/x402-payments.ts';
import type {
  AuthorizationPayload,
  PaymentIntent,
  PolicyReceipt,
  SignPayload,
  TransactionPayload,
} from '../shared/domain/receipt.ts';
import { authorizationSlot } from '../shared/domain/slot.ts';
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
    to: row.to_address,
    amount_minor: row.amount_minor,
    max_fee_minor: maxFeeMinor,
  };
}

/**
 * Allows the signers to sign a payload for a payment.
 * @param purpose whether the payload is the payment itself, or uses its place up by paying nobody
 * @param replaces slots that the payment had before and gives up
 */
export async function receiptFor(
  policyKey: PolicyKey,
  {
    row,
    wallet,
    payload,
    now,
    purpose = 'payment',
    replaces = [],
  }: {
    row: TransactionRow;
    wallet: WalletRow;
    payload: TransactionPayload;
    now: Date;
    purpose?: 'payment' | 'noop';
    replaces?: readonly string[];
  },
): Promise<Allotment> {
  const family = familyOfPayload(payload);
  const maxFeeMinor = family.maxFeeOf(payload).toString();
  // Signers that come back later are not to sign what nobody would take any more: it is built anew.
  const outdatedAt = Math.floor((family.outdatedAtMs(payload) ?? Number.POSITIVE_INFINITY) / 1000);
  const { address } = wallet;
  const intent =
    purpose === 'payment'
      ? intentOf(row, maxFeeMinor)
      : { chain: row.chain, asset: 'native' as const, to: address, amount_minor: '0', max_fee_minor: maxFeeMinor };
  const iat = Math.floor(now.getTime() / 1000);
  const allowed = { intent, iat, exp: Math.min(iat + receiptLifetimeSeconds, outdatedAt) };
  return issue(policyKey, {
    row,
    wallet,
    payload,
    ...allowed,
    ...(replaces.length > 0 && { replaces: [...replaces] }),
  });
}

/** Allows the signers to sign one authorisation, for as long as it is good and no longer. */
export function authorizationReceipt(
  policyKey: PolicyKey,
  { row, wallet, payload, now }: { row: X402PaymentRow; wallet: WalletRow; payload: AuthorizationPayload; now: Date },
): Promise<Allotment<AuthorizationPayload>> {
  const { from, to, value, domain, validAfter, validBefore, nonce } = payload.authorization;
  const intent: PaymentIntent = {
    chain: row.chain,
    asset: domain.verifyingContract,
    to,
    amount_minor: value,
    max_fee_minor: '0',
    authorization: { valid_after: validAfter, valid_before: validBefore, nonce },
  };
  const replaces = row.former_nonces.map((former) => authorizationSlot({ domain, from, nonce: former }));
  const iat = Math.floor(now.getTime() / 1000);
  const allowed = { intent, iat, exp: validBefore, ...(replaces.length > 0 && { replaces }) };
  return issue(policyKey, { row, wallet, payload, ...allowed });
}

async function issue<Payload extends SignPayload | TransactionPayload>(
  policyKey: PolicyKey,
  {
    row,
    wallet,
    payload,
    ...allowed
  }: {
    row: Pick<TransactionRow | X402PaymentRow, 'id' | 'account_id' | 'agent_id' | 'decision_id'>;
    wallet: WalletRow;
    payload: Payload;
    intent: PaymentIntent;
    replaces?: string[];
    iat: number;
    exp: number;
  },
): Promise<Allotment<Payload>> {
  const receipt = await signReceipt(policyKey, {
    account_id: row.account_id,
    agent_id: row.agent_id,
    wallet: walletOf(wallet),
    transaction_id: row.id,
    decision_id: row.decision_id!,
    ...allowed,
  });
  return { keyId: wallet.account_key_id, path: wallet.path, address: wallet.address, payload, receipt };
}

function walletOf({ account_key_id, path, address }: WalletRow): PolicyReceipt['wallet'] {
  return { key_id: account_key_id, path, address };
}
