import type { Client } from '@temporalio/client';
import type { Registry } from '../shared/chain/registry.ts';
import { sharesWallet } from '../shared/chain/shares-wallet.ts';
import { lockAccount } from '../shared/db/accounts.ts';
import { shareAgent } from '../shared/db/agents.ts';
import { bySystem, insertAudit } from '../shared/db/audit.ts';
import { currentFreeze } from '../shared/db/freezes.ts';
import {
  closeGasFills,
  type EndedGasFill,
  type GasWanted,
  hasGasFillLeft,
  insertGasFill,
  isGasWanted,
  listGasWanted,
} from '../shared/db/gas-fills.ts';
import { forgetIdleGas } from '../shared/db/gas-levels.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/db/pool.ts';
import { insertTransaction, type NewTransaction, type TransactionRow } from '../shared/db/transactions.ts';
import { describeFreeze } from '../shared/domain/describe-freeze.ts';
import type { GasTopUp } from '../shared/domain/gas.ts';
import { parseAmount } from '../shared/domain/money.ts';
import { newId } from '../shared/ids.ts';
import type { Logger } from '../shared/log.ts';
import { renderTransaction } from '../shared/render-transaction.ts';
import { workflowNames } from '../shared/temporal.ts';
import { transactionStart } from '../shared/transaction-start.ts';
import { tellUnfilled, type Unfilled } from './tell-unfilled.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Top-ups of one run; the next run goes on. */
const maxTopUps = 200;
/** Wallets that are listed at a time: those that nobody can fill up keep none of the others from their turn. */
const pageSize = 50;
/** No page is begun later than this. */
const limitMs = 60_000;
/** After a payment that failed, as for a policy of the funding agent, before there is another one for the wallet. */
const retryMs = 3_600_000;

export interface TopUpGasDependencies {
  readonly pool: Pool;
  readonly client: Client;
  readonly registry: Registry;
  readonly logger: Logger;
}

/** What one run did. */
export interface GasToppedUp {
  /** Payments of earlier runs that have ended. */
  readonly closed: number;
  readonly made: number;
  /** Wallets that are low and were not filled up, because their funding agent cannot pay or has paid often enough today. */
  readonly unfilled: number;
}

/**
 * Has funding agents fill up wallets that are low on coins for fees, by ordinary payments under their own policies. Safe to
 * repeat, and from several workers at once: at most one payment for a wallet and chain is under way. One that was stored
 * and not started is started by the schedule `reconcile`, as every payment is. Why a wallet is not filled up is told by an
 * event and the log, once for each reason.
 */
export function createTopUpGas({ pool, client, registry, logger }: TopUpGasDependencies) {
  return function topUpGas(): Promise<GasToppedUp> {
    return withHeartbeat(async () => {
      const closed = await close();
      await forgetIdleGas(pool);
      const deadline = performance.now() + limitMs;
      let [made, unfilled] = [0, 0];
      let after: GasWanted | undefined;
      do {
        const page = await listGasWanted(pool, { retryMs, limit: pageSize, after });
        for (const wanted of page) {
          const result = await inTransaction(pool, (db) => store(db, { registry, wanted }));
          if (result && 'row' in result) {
            made += 1;
            await start(result.row);
          } else if (result) {
            unfilled += 1;
            if (result.isNew) warn(wanted, result.unfilled);
          }
        }
        after = page.at(-1);
      } while (after && made < maxTopUps && performance.now() < deadline);
      return { closed, made, unfilled };
    });
  };

  /** Notes which payments have ended, and tells of those that failed. */
  async function close(): Promise<number> {
    const ended = await inTransaction(pool, async (db) => {
      const fills = await closeGasFills(db);
      const told: { wanted: GasWanted; unfilled: Unfilled }[] = [];
      for (const fill of fills) {
        const failed = failureOf(fill);
        if (failed && (await tellUnfilled(db, failed))) told.push(failed);
      }
      return { count: fills.length, told };
    });
    for (const { wanted, unfilled } of ended.told) warn(wanted, unfilled);
    return ended.count;
  }

  function warn({ account_id, agent_id, chain }: GasWanted, { reason, fundingAgentId, transactionId }: Unfilled): void {
    const facts = { account_id, agent_id, chain, funding_agent_id: fundingAgentId, reason };
    logger.warn(
      { ...facts, ...(transactionId !== null && { transaction_id: transactionId }) },
      'a wallet that is low on coins for fees is not filled up',
    );
  }

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

/** What became of a wallet: a payment for it, or why there is none. */
type Stored =
  | { readonly row: TransactionRow }
  | { readonly unfilled: Unfilled /** Whether it was told now. */; readonly isNew: boolean };

/**
 * Stores the payment and what it is for, if it is still wanted; else tells why there is none.
 * @returns nothing where it is not wanted any more
 */
async function store(
  db: Queryable,
  { registry, wanted }: { registry: Registry; wanted: GasWanted },
): Promise<Stored | undefined> {
  const { account_id: accountId, wallet_id: walletId, chain } = wanted;
  // The first lock, so that its other workers wait: they find the payment then.
  const account = await lockAccount(db, { id: accountId });
  const topUp = account?.gas_top_ups.find((each) => each.chain === chain);
  if (!topUp || topUp.funding_agent_id === wanted.agent_id) return undefined;
  if (!(await isGasWanted(db, { walletId, chain, retryMs }))) return undefined;
  const payment = await paymentOf(db, { registry, wanted, topUp });
  if ('reason' in payment) {
    const unfilled = { ...payment, fundingAgentId: topUp.funding_agent_id, transactionId: null };
    return { unfilled, isNew: await tellUnfilled(db, { wanted, unfilled }) };
  }
  const stored = await insertTransaction(db, payment);
  await insertGasFill(db, { transactionId: payment.id, accountId, walletId, chain });
  await insertAudit(db, {
    ...{ accountId, agentId: payment.agentId, action: 'transaction.created', acting: bySystem },
    ...{ resourceType: 'transaction', resourceId: payment.id, result: 'success' },
    changes: { before: null, after: renderTransaction(stored) },
  });
  return { row: stored };
}

/** The payment, or what keeps the funding agent from making it. */
async function paymentOf(
  db: Queryable,
  { registry, wanted, topUp }: { registry: Registry; wanted: GasWanted; topUp: GasTopUp },
): Promise<NewTransaction | Pick<Unfilled, 'reason' | 'why'>> {
  const { account_id: accountId, chain } = wanted;
  const native = registry.chain(chain)?.tokens[0];
  const funding = await shareAgent(db, { id: topUp.funding_agent_id, accountId });
  const who = `the funding agent ${topUp.funding_agent_id}`;
  if (!funding) return { reason: 'agent_deleted', why: `${who} is no agent of this account any more.` };
  if (funding.status !== 'active') return { reason: 'agent_inactive', why: `${who} is inactive.` };
  const amountMinor = native && parseAmount(topUp.amount, native.decimals);
  if (!native || !sharesWallet(chain, funding.chain) || typeof amountMinor !== 'bigint')
    return { reason: 'invalid_chain', why: `${who} cannot send ${topUp.amount} of its coin there.` };
  const freeze = await currentFreeze(db, { accountId, agentId: funding.id });
  if (freeze) return { reason: 'frozen', why: `${who} cannot pay. ${describeFreeze(freeze)}` };
  if (!(await hasGasFillLeft(db, { accountId, topUp })))
    return { reason: 'max_per_day', why: `the ${topUp.max_per_day} top-ups of 24 hours on that chain are used up.` };
  return {
    ...{ id: newId('tx'), accountId, agentId: funding.id, walletId: funding.wallet_id, chain, amountMinor },
    ...{ token: native.symbol, asset: native.asset, decimals: native.decimals },
    ...{ fromAddress: funding.address, toAddress: wanted.address },
    memo: `Coins for fees of ${wanted.agent_id}, whose wallet is low on them`,
  };
}

/** What is to be told of a payment that failed; nothing where it did not, or the wallet is not low any more. */
function failureOf({
  succeeded,
  failure_code: reason,
  failure_message,
  ...fill
}: EndedGasFill): { wanted: GasWanted; unfilled: Unfilled } | undefined {
  const { low_since, funding_agent_id: fundingAgentId, transaction_id: transactionId, ...wallet } = fill;
  if (succeeded || low_since === null) return undefined;
  const why = `payment ${transactionId} of the funding agent ${fundingAgentId} failed: ${failure_message ?? reason}`;
  return {
    wanted: { ...wallet, low_since },
    unfilled: { reason: reason ?? 'failed', why, fundingAgentId, transactionId },
  };
}
