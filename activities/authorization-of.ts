import { buildAuthorization } from '../shared/chain/evm/transfer-authorization.ts';
import type { X402PaymentRow } from '../shared/db/x402-payments.ts';
import type { TransferAuthorization } from '../shared/domain/receipt.ts';
import type { AuthorizationStamp } from '../shared/domain/x402.ts';

/** The authorisation that a payment was stamped with; undefined when there is none (any more). */
export function stampOf({ auth_nonce, valid_after, valid_before }: X402PaymentRow): AuthorizationStamp | undefined {
  if (auth_nonce === null) return undefined;
  return { nonce: auth_nonce, validAfter: Number(valid_after), validBefore: Number(valid_before) };
}

/** What a payment's authorisation says, complete. */
export function authorizationOf(row: X402PaymentRow, stamp: AuthorizationStamp): TransferAuthorization {
  return buildAuthorization({
    chain: row.chain,
    asset: row.asset,
    domain: { name: row.domain_name, version: row.domain_version },
    from: row.from_address,
    to: row.to_address,
    amountMinor: row.amount_minor,
    stamp,
  });
}
