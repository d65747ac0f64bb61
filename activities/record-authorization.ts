import type { AuthorizationUse } from '../shared/chain/adapter.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { getX402Payment, type X402PaymentRow } from '../shared/db/x402-payments.ts';
import { noteX402Payment } from '../shared/note-x402.ts';
import { overX402Payment, paidX402Payment } from '../shared/x402-budget.ts';
import { lockX402 } from './lock-payment.ts';

/**
 * What has become of a payment's authorisation.
 * - `settled`: the chain has moved the money.
 * - `over`: it can be used no more, and was not; what the payment took was given back.
 * - `again`: there is none (any more), and the payment may have another one.
 * - `open`: not known yet.
 */
export type AuthorizationState = 'settled' | 'over' | 'again' | 'open';

/** What a final block has shown of an authorisation: that it was used, or that it never will be. */
export type AuthorizationFact = { readonly nonce: string } & (
  | { readonly use: AuthorizationUse }
  | { readonly isOver: true }
);

/**
 * Notes a fact about a payment's authorisation, once, in the caller's database transaction.
 * @returns how the payment stands afterwards
 */
export async function recordAuthorization(
  db: Queryable,
  { ledgerId, fact }: { ledgerId: string; fact: AuthorizationFact },
): Promise<AuthorizationState> {
  const { row } = await lockX402(db, ledgerId);
  // Somebody else was faster, and what was learnt may be about an authorisation that another one has followed.
  if (row.settlement !== 'unsettled' || row.auth_nonce !== fact.nonce) return stateOf(row);
  if ('use' in fact) await paidX402Payment(db, row, fact.use);
  else await overX402Payment(db, row);
  const after = (await getX402Payment(db, { id: ledgerId }))!;
  // It was pending: it has failed now, or its authorisation was used before it was handed out.
  if (after.status !== row.status && after.status !== 'pending')
    await noteX402Payment(db, { id: ledgerId, type: `x402.payment.${after.status}` });
  return stateOf(after);
}

export function stateOf({ settlement, status }: X402PaymentRow): AuthorizationState {
  if (settlement === 'unsettled') return 'open';
  if (settlement === 'settled') return 'settled';
  return settlement === 'expired' || status === 'failed' ? 'over' : 'again';
}
