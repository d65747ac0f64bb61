import type { AuthorizationUse } from '../shared/chain/adapter.ts';
import { lockAgent, lockWallet } from '../shared/db/agents.ts';
import { insertEvent } from '../shared/db/events.ts';
import type { Queryable } from '../shared/db/pool.ts';
import { getX402Payment, lockX402Payment, type X402PaymentRow } from '../shared/db/x402-payments.ts';
import { lockSession } from '../shared/db/x402-sessions.ts';
import { renderX402Payment } from '../shared/render-x402.ts';
import { overX402Payment, paidX402Payment } from '../shared/x402-budget.ts';
import { notFound } from './failures.ts';

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
  const row = await lockForSettlement(db, ledgerId);
  // Somebody else was faster, and what was learnt may be about an authorisation that another one has followed.
  if (row.settlement !== 'unsettled' || row.auth_nonce !== fact.nonce) return stateOf(row);
  if ('use' in fact) await paidX402Payment(db, row, fact.use);
  else await overX402Payment(db, row);
  const after = (await getX402Payment(db, { id: ledgerId }))!;
  if (after.status !== row.status) await tell(db, after);
  return stateOf(after);
}

export function stateOf({ settlement, status }: X402PaymentRow): AuthorizationState {
  if (settlement === 'unsettled') return 'open';
  if (settlement === 'settled') return 'settled';
  return settlement === 'expired' || status === 'failed' ? 'over' : 'again';
}

/** Locks in the one order that every writer keeps: agent, session, payment, wallet. */
async function lockForSettlement(db: Queryable, ledgerId: string): Promise<X402PaymentRow> {
  const known = await getX402Payment(db, { id: ledgerId });
  if (!known) throw notFound(`Payment ${ledgerId}`);
  await lockAgent(db, { id: known.agent_id });
  await lockSession(db, { id: known.session_id });
  const row = await lockX402Payment(db, { id: ledgerId });
  await lockWallet(db, { id: known.wallet_id });
  return row!;
}

/** A payment has ended that was pending: it failed, or its authorisation was used before it was handed out. */
async function tell(db: Queryable, row: X402PaymentRow): Promise<void> {
  if (row.status === 'pending') return;
  await insertEvent(db, {
    accountId: row.account_id,
    type: `x402.payment.${row.status}`,
    resourceType: 'x402_payment',
    resourceId: row.id,
    agentId: row.agent_id,
    data: renderX402Payment(row),
  });
}
