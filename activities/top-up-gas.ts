import type { Client } from '@temporalio/client';
import type { Registry } from '../shared/chain/registry.ts';
import { sharesWallet } from '../shared/chain/shares-wallet.ts';
import { lockAccount } from '../shared/db/accounts.ts';
import { shareAgent } from '../shared/db/agents.ts';
import { bySystem, insertAudit } from '../shared/db/audit.ts';
import { currentFreeze } from '../shared/db/freezes.ts';
import {
  closeGasFills,
  type GasWanted,
  hasGasFillLeft,
  insertGasFill,
  isGasWanted,
  listGasWanted,
} from '../shared/db/gas-fills.ts';
import { forgetIdleGas } from '../shared/db/gas-levels.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { insertTransaction, type TransactionRow } from '../shared/db/transactions.ts';
import type { GasTopUp } from '../shared/domain/gas.ts';
import { parseAmount } from '../shared/domain/money.ts';
import { newId } from '../shared/ids.ts';
import type { Logger } from '../shared/log.ts';
import { renderTransaction } from '../shared/render-transaction.ts';
import { workflowNames } from '../shared/temporal.ts';
import { transactionStart } from '../shared/transaction-start.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Top-ups of one run; the next run goes on. */
const maxTopUps = 200;
/** After a payment that failed, as for a policy of the funding agent, before there is another one for the wallet. */
const retryMs = 3_600_000;

export interface TopUpGasDependencies {
  readonly pool: Pool;
  readonly client: Client;
  readonly registry: Registry;
  readonly logger: Logger;
}

/**
 * Has funding agents fill up wallets that are low on coins for fees, by ordinary payments under their own policies. Safe to
 * repeat, and from several workers at once: at most one payment for a wallet and chain is under way. One that was stored
 * and not started is started by the schedule `reconcile`, as every payment is.
 */
export function createTopUpGas({ pool, client, registry, logger }: TopUpGasDependencies) {
  return function topUpGas(): Promise<{ closed: number; made: number }> {
    return withHeartbeat(async () => {
      const closed = await closeGasFills(pool);
      await forgetIdleGas(pool);
      let made = 0;
      for (const wanted of await listGasWanted(pool, { retryMs, limit: maxTopUps })) {
        const stored = await inTransaction(pool, (db) => store(db, { registry, wanted }));
        if (!stored) continue;
        made += 1;
        await start(stored);
      }
      return { closed, made };
    });
  };

  async function start(row: TransactionRow): Promise<void> {
    const facts = { transaction_id: row.id, account_id: row.account_id, chain: row.chain };
    try {
      await client.workflow.start(workflowNames.transaction, {
        ...transactionStart(row),
        workflowIdConflictPolicy: 'USE_EXISTING',
      });
      logger.info(facts, 'a funding agent fills a wallet up with coins for fees');
    } catch (error) {
      logger.warn({ ...facts, error: String(error) }, 'a top-up of gas is stored and not started yet');
    }
  }
}

/**
 * Stores the payment and what it is for, if it is still wanted.
 * @returns nothing where it is not, or the funding agent cannot pay it
 */
async function store(
  db: Queryable,
  { registry, wanted }: { registry: Registry; wanted: GasWanted },
): Promise<TransactionRow | undefined> {
  const { account_id: accountId, wallet_id: walletId, chain } = wanted;
  // The first lock, so that its other workers wait: they find the payment then.
  const account = await lockAccount(db, { id: accountId });
  const topUp = account?.gas_top_ups.find((each) => each.chain === chain);
  if (!topUp || topUp.funding_agent_id === wanted.agent_id) return undefined;
  if (!(await isGasWanted(db, { walletId, chain, retryMs })) || !(await hasGasFillLeft(db, { accountId, topUp })))
    return undefined;
  const row = await paymentOf(db, { registry, wanted, topUp });
  if (!row) return undefined;
  const stored = await insertTransaction(db, row);
  await insertGasFill(db, { transactionId: row.id, accountId, walletId, chain });
  await insertAudit(db, {
    ...{ accountId, agentId: row.agentId, action: 'transaction.created', acting: bySystem },
    ...{ resourceType: 'transaction', resourceId: row.id, result: 'success' },
    changes: { before: null, after: renderTransaction(stored) },
  });
  return stored;
}

/** Nothing where the funding agent is inactive, frozen or gone, or its chain is not served any more. */
async function paymentOf(
  db: Queryable,
  { registry, wanted, topUp }: { registry: Registry; wanted: GasWanted; topUp: GasTopUp },
) {
  const { account_id: accountId, chain } = wanted;
  const native = registry.chain(chain)?.tokens[0];
  const funding = await shareAgent(db, { id: topUp.funding_agent_id, accountId });
  if (!native || funding?.status !== 'active' || !sharesWallet(chain, funding.chain)) return undefined;
  if (await currentFreeze(db, { accountId, agentId: funding.id })) return undefined;
  const amountMinor = parseAmount(topUp.amount, native.decimals);
  if (typeof amountMinor !== 'bigint') return undefined;
  return {
    ...{ id: newId('tx'), accountId, agentId: funding.id, walletId: funding.wallet_id, chain, amountMinor },
    ...{ token: native.symbol, asset: native.asset, decimals: native.decimals },
    ...{ fromAddress: funding.address, toAddress: wanted.address },
    memo: `Coins for fees of ${wanted.agent_id}, whose wallet is low on them`,
  };
}
