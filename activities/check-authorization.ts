import { ApplicationFailure } from '@temporalio/common';
import type { AuthorizationStanding, ChainAdapter, Chains } from '../shared/chain/adapter.ts';
import type { OpenAuthorizationRow } from '../shared/db/open-authorizations.ts';
import { inTransaction, type Pool } from '../shared/db/pool.ts';
import { getX402Payment } from '../shared/db/x402-payments.ts';
import { notFound } from './failures.ts';
import {
  type AuthorizationFact,
  type AuthorizationState,
  recordAuthorization,
  stateOf,
} from './record-authorization.ts';

/**
 * Asks the chain what has become of a payment's authorisation, and notes it. The slow way, for when no news came.
 * Safe to repeat, at any time and from several processes.
 * @throws RpcUnavailable
 */
export function createCheckAuthorization({ pool, chains }: { pool: Pool; chains: Chains }) {
  return async function checkAuthorization(ledgerId: string): Promise<{ readonly state: AuthorizationState }> {
    const row = await getX402Payment(pool, { id: ledgerId });
    if (!row) throw notFound(`Payment ${ledgerId}`);
    if (row.settlement !== 'unsettled') return { state: stateOf(row) };
    const adapter = chains.get(row.chain);
    if (!adapter) throw ApplicationFailure.retryable(`Chain ${row.chain} is not served here.`, 'ChainNotServed');
    // The stamp of an unsettled payment is whole: the database holds that.
    const fact = await factOf(adapter, row as OpenAuthorizationRow);
    if (!fact) return { state: 'open' };
    return { state: await inTransaction(pool, (db) => recordAuthorization(db, { ledgerId, fact })) };
  };
}

/** What the chain says for good about an authorisation; undefined when it does not yet. @throws RpcUnavailable */
export async function factOf(adapter: ChainAdapter, row: OpenAuthorizationRow): Promise<AuthorizationFact | undefined> {
  return factBy(row, await standingOf(adapter, row));
}

/** How an authorisation stands at the newest final block. @throws RpcUnavailable */
export function standingOf(adapter: ChainAdapter, row: OpenAuthorizationRow): Promise<AuthorizationStanding> {
  return adapter.authorizationStanding({
    token: row.asset,
    authorizer: row.from_address,
    nonce: row.auth_nonce,
    validAfter: Number(row.valid_after),
    validBefore: Number(row.valid_before),
  });
}

/** What of that is so for good. */
export function factBy(row: OpenAuthorizationRow, standing: AuthorizationStanding): AuthorizationFact | undefined {
  if (standing.outcome === 'used') return { nonce: row.auth_nonce, use: standing };
  return standing.outcome === 'unused' && standing.isOver ? { nonce: row.auth_nonce, isOver: true } : undefined;
}
