import { privateKeyToAccount } from 'viem/accounts';
import { takeX402Payment } from '../../api/operations/take-x402-payment.ts';
import { bySystem } from '../../shared/db/audit.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import type { StoredOffer, X402PaymentRow } from '../../shared/db/x402-payments.ts';
import { insertSession, type SessionRow } from '../../shared/db/x402-sessions.ts';
import { newId } from '../../shared/ids.ts';
import { holdRest } from '../../shared/x402-budget.ts';
import type { TestAgent } from './rows.ts';

/** The key of the wallet that `insertTestAgent` makes. */
export const payer = privateKeyToAccount('0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d');

const asset = '0x5FbDB2315678afecb367f032d93F642f64180aa3';
const place = { chain: 'eip155:31337', token: 'USDC', asset, decimals: 6 } as const;

/** A session that is open, as the api stores it. */
export function insertTestSession(
  pool: Pool,
  agent: TestAgent,
  { budgetMinor = 1_000_000n, ttlSeconds = 3_600 }: { budgetMinor?: bigint; ttlSeconds?: number } = {},
): Promise<SessionRow> {
  return inTransaction(pool, async (db) => {
    const id = newId('sess');
    const session = await insertSession(db, {
      ...agent,
      ...place,
      id,
      budgetMinor,
      allowedUrls: undefined,
      ttlSeconds,
    });
    await holdRest(db, { sessionId: id });
    return session;
  });
}

/** A payment of 0.01 USDC and a fee of 0.0001 out of a session, as the api stores it; nobody works on it yet. */
export function insertTestLedger(
  pool: Pool,
  session: SessionRow,
  {
    windowSeconds = 300,
    x402Version = 2,
    offer = { resource: null, accepted: { scheme: 'exact', network: place.chain }, extensions: null },
  }: { windowSeconds?: number; x402Version?: 1 | 2; offer?: StoredOffer } = {},
): Promise<X402PaymentRow> {
  const { id: sessionId, account_id: accountId, agent_id: agentId, wallet_id: walletId } = session;
  const payment = {
    ...{ id: newId('led'), sessionId, accountId, agentId, walletId, ...place },
    ...{ amountMinor: 10_000n, feeMinor: 100n, feeRate: '1' },
    ...{ fromAddress: payer.address, toAddress: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC' },
    ...{ targetUrl: 'https://api.example.com/v1/weather', method: 'GET', x402Version, offer, windowSeconds },
    ...{ domainName: 'USD Coin', domainVersion: '2' },
  };
  return inTransaction(pool, (db) => takeX402Payment(db, { payment, acting: bySystem }));
}
