import type { Registry } from '../../shared/chain/registry.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { currentFreeze } from '../../shared/db/freezes.ts';
import type { Pool, Queryable } from '../../shared/db/pool.ts';
import {
  findTransaction,
  getTransaction,
  insertTransaction,
  type NewTransaction,
  type TransactionRow,
} from '../../shared/db/transactions.ts';
import { describeFreeze } from '../../shared/domain/describe-freeze.ts';
import { formatAmount } from '../../shared/domain/money.ts';
import { PurserError } from '../../shared/errors.ts';
import { newId } from '../../shared/ids.ts';
import type { Logger } from '../../shared/log.ts';
import { renderTransaction } from '../../shared/render-transaction.ts';
import type { Once } from '../idempotency.ts';
import { requireActiveAgent, requireLastingAgent } from '../require-agent.ts';
import type { CreateTransactionBody } from '../schemas/transactions.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';
import { resolvePayment } from './resolve-payment.ts';
import { storePayment } from './store-payment.ts';

export interface SubmitTransactionDependencies {
  readonly pool: Pool;
  readonly registry: Registry;
  readonly temporal: TemporalGateway;
}

/**
 * Stores a payment and waits a short time for the policies' decision.
 * From the moment the row is stored the payment may be sent, so from then on no failure is answered as an error.
 * @returns the row, `pending` unless it was decided or ended in that time
 * @throws PurserError 400 for what is wrong with the request, and for a payment that was denied in time
 */
export async function submitTransaction(
  { pool, registry, temporal }: SubmitTransactionDependencies,
  {
    accountId,
    acting,
    body,
    log,
    once,
  }: { accountId: string; acting: Acting; body: CreateTransactionBody; log: Logger; once: Once },
): Promise<TransactionRow> {
  const agent = await requireActiveAgent(pool, { id: body.agent_id, accountId });
  const payment = resolvePayment(registry, { agent, body });
  const row = { id: newId('tx'), accountId, agentId: agent.id, walletId: agent.wallet_id, ...payment };
  const stored = await storePayment(pool, {
    id: row.id,
    once,
    store: (db) => store(db, { row, acting }),
    find: () => getTransaction(pool, { id: row.id }),
  });
  if ((await temporal.decideTransaction(stored, { log })) === 'undecided') return withFreeze(pool, stored);
  return withFreeze(pool, unlessDenied(await reread(pool, { stored, log })));
}

/** In one database transaction. */
async function store(db: Queryable, { row, acting }: { row: NewTransaction; acting: Acting }): Promise<TransactionRow> {
  const stored = await insertTransaction(db, row);
  await requireLastingAgent(db, { id: row.agentId, accountId: row.accountId });
  await insertAudit(db, {
    accountId: row.accountId,
    agentId: row.agentId,
    action: 'transaction.created',
    acting,
    resourceType: 'transaction',
    resourceId: row.id,
    result: 'success',
    changes: { before: null, after: renderTransaction(stored) },
  });
  return stored;
}

/**
 * The answer to a request whose payment was stored, from how that stands now.
 * @throws PurserError 400 for a payment that was denied
 */
export async function submittedTransaction(
  { pool }: Pick<SubmitTransactionDependencies, 'pool'>,
  { id, accountId }: { id: string; accountId: string },
): Promise<TransactionRow> {
  const row = await findTransaction(pool, { id, accountId });
  if (!row) throw new Error(`Transaction ${id} has gone, and its key is still there.`);
  return withFreeze(pool, unlessDenied(row));
}

/** Says that a payment waits for the end of a freeze, also before it has come as far as that. */
async function withFreeze(pool: Pool, row: TransactionRow): Promise<TransactionRow> {
  if (row.status !== 'pending' || row.hash !== null || row.notice !== null) return row;
  // The payment is stored: nothing that is only for its notice may fail the answer.
  const freeze = await currentFreeze(pool, { accountId: row.account_id, agentId: row.agent_id }).catch(() => undefined);
  return freeze ? { ...row, notice: describeFreeze(freeze) } : row;
}

/** The row after the decision. When it cannot be read, the one before is still true: stored, and pending. */
async function reread(pool: Pool, { stored, log }: { stored: TransactionRow; log: Logger }): Promise<TransactionRow> {
  try {
    return (await findTransaction(pool, { id: stored.id, accountId: stored.account_id })) ?? stored;
  } catch (error) {
    log.warn({ err: error, transaction_id: stored.id }, 'a decided payment could not be read again');
    return stored;
  }
}

/** Answers a refusal that was stored as a failed payment as 400; other failures are facts about the payment, not errors. */
function unlessDenied(row: TransactionRow): TransactionRow {
  const message = row.failure_message ?? 'The payment was refused.';
  const transaction_id = row.id;
  switch (row.failure_code) {
    case 'policy_violation': {
      const violations = row.decision?.violations ?? [];
      throw new PurserError('policy_violation', message, { details: { transaction_id, ...violations[0], violations } });
    }
    case 'insufficient_funds': {
      const attempted = formatAmount(BigInt(row.amount_minor), row.decimals);
      throw new PurserError('insufficient_funds', message, {
        details: { transaction_id, attempted, token: row.token },
      });
    }
    case 'agent_inactive':
      throw new PurserError('agent_inactive', message, { param: 'agent_id', details: { transaction_id } });
    default:
      return row;
  }
}
