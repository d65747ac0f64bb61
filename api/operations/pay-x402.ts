import type { Registry, Token } from '../../shared/chain/registry.ts';
import { findAgent } from '../../shared/db/agents.ts';
import type { Acting } from '../../shared/db/audit.ts';
import { currentFreeze } from '../../shared/db/freezes.ts';
import type { Pool } from '../../shared/db/pool.ts';
import {
  findX402Payment,
  getX402Payment,
  type NewX402Payment,
  type X402PaymentRow,
} from '../../shared/db/x402-payments.ts';
import type { SessionRow } from '../../shared/db/x402-sessions.ts';
import { isUrlAllowed } from '../../shared/domain/url-match.ts';
import { type FeeTier, feeOf } from '../../shared/domain/x402-fee.ts';
import { PurserError } from '../../shared/errors.ts';
import { newId } from '../../shared/ids.ts';
import type { Logger } from '../../shared/log.ts';
import type { Once } from '../idempotency.ts';
import { frozenAgent, inactiveAgent } from '../require-agent.ts';
import { requireAmount } from '../require-amount.ts';
import type { PayBody } from '../schemas/x402.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';
import { chooseOffer } from '../x402/choose-offer.ts';
import type { Probe } from '../x402/probe.ts';
import { requireTargetUrl } from '../x402/require-target-url.ts';
import { storePayment } from './store-payment.ts';
import { takeX402Payment } from './take-x402-payment.ts';
import { sessionOver } from './x402-payment-answer.ts';

export interface PayX402Dependencies {
  readonly pool: Pool;
  readonly registry: Registry;
  readonly temporal: Pick<TemporalGateway, 'payX402'>;
  readonly probe: Probe;
  readonly feeTiers: readonly FeeTier[];
  readonly allowLoopback: boolean;
}

/**
 * Asks the target what it wants, takes that from the session's budget, and waits a short time for the authorisation.
 * From the moment the row is stored the payment may be signed, so from then on no failure is answered as an error.
 * @returns the row; `pending` unless the authorisation was issued, or is known not to come, in that time
 * @throws PurserError 400 for what is wrong with request, session, target or budget; nothing is stored then
 */
export async function payX402(
  deps: PayX402Dependencies,
  { session, acting, body, log, once }: { session: SessionRow; acting: Acting; body: PayBody; log: Logger; once: Once },
): Promise<X402PaymentRow> {
  const { pool, temporal } = deps;
  const payment = await resolve(deps, { session, body });
  const stored = await storePayment(pool, {
    id: payment.id,
    once,
    store: (db) => takeX402Payment(db, { payment, acting }),
    find: () => getX402Payment(pool, { id: payment.id }),
  });
  if (stored.status !== 'pending') return stored;
  await temporal.payX402(stored, { log });
  return reread(pool, { stored, log });
}

/** What is going to be paid: everything that can be known before the session is charged. */
async function resolve(
  { pool, registry, probe, feeTiers, allowLoopback }: PayX402Dependencies,
  { session, body }: { session: SessionRow; body: PayBody },
): Promise<NewX402Payment> {
  const targetUrl = requireTargetUrl(body.target_url, { param: 'target_url', allowLoopback });
  const token = requireTokenOf(session, { registry });
  const maxAmountMinor =
    body.max_amount === undefined ? undefined : requireAmount(body.max_amount, { token, param: 'max_amount' });
  const { account_id: accountId, agent_id: agentId, chain, asset, decimals } = session;
  if (session.status !== 'active') throw sessionOver(session);
  const agent = await findAgent(pool, { id: agentId, accountId });
  if (agent?.status !== 'active') throw inactiveAgent(agentId);
  const freeze = await currentFreeze(pool, { accountId, agentId });
  if (freeze) throw frozenAgent(agentId, freeze);
  requireAllowed(session, { targetUrl });
  const { method, headers = {} } = body;
  const required = await probe({ url: targetUrl, method, headers, body: body.body });
  const terms = { required, targetUrl, chain, token, walletAddress: agent.address, registry, maxAmountMinor };
  const { amountMinor, payTo, domain, windowSeconds, version, offer } = chooseOffer(terms);
  const { feeMinor, rate: feeRate } = feeOf({ amountMinor, decimals, tiers: feeTiers });
  return {
    id: newId('led'),
    ...{ sessionId: session.id, accountId, agentId, walletId: session.wallet_id },
    ...{ chain, token: token.symbol, asset, decimals, amountMinor, feeMinor, feeRate },
    ...{ fromAddress: agent.address, toAddress: payTo, targetUrl, method },
    ...{ x402Version: version, offer, domainName: domain.name, domainVersion: domain.version, windowSeconds },
  };
}

/** The session's token, if it is still what it was when the budget was held. */
function requireTokenOf({ chain, token: symbol, asset, id }: SessionRow, { registry }: { registry: Registry }): Token {
  const token = registry.token(chain, symbol);
  if (token?.asset === asset) return token;
  throw new PurserError('invalid_token', `${symbol} of session ${id} is not served on ${chain} any more.`);
}

function requireAllowed({ id, allowed_urls }: SessionRow, { targetUrl }: { targetUrl: string }): void {
  if (allowed_urls === null || isUrlAllowed(targetUrl, allowed_urls)) return;
  throw new PurserError('url_not_allowed', `target_url ${targetUrl} is not among allowed_urls of session ${id}.`, {
    param: 'target_url',
    details: { session_id: id, allowed_urls },
  });
}

/** The row as it is now. When it cannot be read, the one before is still true: stored, and pending. */
async function reread(pool: Pool, { stored, log }: { stored: X402PaymentRow; log: Logger }): Promise<X402PaymentRow> {
  try {
    return (await findX402Payment(pool, { id: stored.id, accountId: stored.account_id })) ?? stored;
  } catch (error) {
    log.warn({ err: error, ledger_id: stored.id }, 'a payment could not be read again');
    return stored;
  }
}
