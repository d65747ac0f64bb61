import type { Offer } from '../chain/family.ts';
import type { Asset } from '../chain/registry.ts';
import type { ApprovalStatus } from '../domain/approval.ts';
import type { Decision } from '../domain/policy/engine.ts';
import { readListCount } from './list-counts.ts';
import type { Queryable } from './pool.ts';

export type TransactionStatus = 'pending' | 'confirmed' | 'failed';
export type StatusDetail =
  | 'created'
  | 'policy_check'
  | 'awaiting_approval'
  | 'signing'
  | 'broadcast'
  | 'confirming'
  | 'confirmed'
  | 'failed';
/** Why a transaction failed; the closed list of the decisions, section 3. */
export type FailureCode =
  | 'policy_violation'
  | 'approval_rejected'
  | 'approval_timeout'
  | 'insufficient_funds'
  | 'agent_inactive'
  | 'simulation_failed'
  | 'reverted'
  | 'replaced'
  | 'dropped'
  | 'cancelled'
  | 'signing_failed';

/** A row of `transactions`. Columns of type numeric and bigint are decimal strings. */
export interface TransactionRow {
  readonly id: string;
  readonly account_id: string;
  readonly agent_id: string;
  readonly wallet_id: string;
  readonly chain: string;
  readonly token: string;
  readonly asset: Asset;
  readonly decimals: number;
  readonly amount_minor: string;
  readonly from_address: string;
  readonly to_address: string;
  readonly memo: string | null;
  readonly status: TransactionStatus;
  readonly status_detail: StatusDetail;
  readonly failure_code: FailureCode | null;
  readonly failure_message: string | null;
  readonly decision_id: string | null;
  readonly decision: Decision | null;
  readonly nonce: string | null;
  readonly hash: string | null;
  readonly fee_minor: string | null;
  readonly block_number: string | null;
  readonly confirmations: number;
  /** What a pending payment waits for, in words, where that is nothing usual. */
  readonly notice: string | null;
  /** Since when its wallet lacks the money for it. */
  readonly unfunded_since: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  /** The question to a person, where one is asked and the row was read for the api. */
  readonly approval_id?: string | null;
  readonly approval_status?: ApprovalStatus | null;
  readonly approval_expires_at?: Date | null;
  /** What was signed for it, oldest first; where the row was read for the api. */
  readonly attempts?: readonly ShownAttempt[];
}

/** A signed transaction of a payment, as the api shows it; JSON, so times are strings. */
export interface ShownAttempt {
  readonly hash: string;
  readonly raw: string;
  readonly purpose: 'payment' | 'noop';
  readonly block_number: number | null;
  readonly succeeded: boolean | null;
  readonly is_final: boolean;
  /** Null for bytes that an earlier version signed: they tell it themselves. */
  readonly offer: Offer | null;
  readonly created_at: string;
}

export interface NewTransaction {
  readonly id: string;
  readonly accountId: string;
  readonly agentId: string;
  readonly walletId: string;
  readonly chain: string;
  readonly token: string;
  readonly asset: Asset;
  readonly decimals: number;
  readonly amountMinor: bigint;
  readonly fromAddress: string;
  readonly toAddress: string;
  readonly memo: string | undefined;
}

/** Stores a new payment as `pending` / `created`; the row is the outbox from which its workflow is started. */
export async function insertTransaction(db: Queryable, tx: NewTransaction): Promise<TransactionRow> {
  const { rows } = await db.query<TransactionRow>(
    `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
                               from_address, to_address, memo)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
     returning *`,
    [
      tx.id,
      tx.accountId,
      tx.agentId,
      tx.walletId,
      tx.chain,
      tx.token,
      tx.asset,
      tx.decimals,
      tx.amountMinor.toString(),
      tx.fromAddress,
      tx.toAddress,
      tx.memo ?? null,
    ],
  );
  return rows[0]!;
}

/** The row, whoever's it is: for workers. */
export async function getTransaction(db: Queryable, { id }: { id: string }): Promise<TransactionRow | undefined> {
  const { rows } = await db.query<TransactionRow>('select * from transactions where id = $1', [id]);
  return rows[0];
}

/** The row, locked until the database transaction ends. Lock the agent first (order: agent, transaction, wallet). */
export async function lockTransaction(db: Queryable, { id }: { id: string }): Promise<TransactionRow | undefined> {
  const { rows } = await db.query<TransactionRow>('select * from transactions where id = $1 for update', [id]);
  return rows[0];
}

/**
 * Rows as a client sees them: confirmations grow with the chain's head as the watcher last saw it, and a question that
 * nobody answered in time is shown as expired also before its timer says so.
 * @param rows a table, or a query in parentheses
 */
const shown = (
  rows: string,
) => `select t.*, greatest(t.confirmations, h.number - t.block_number + 1)::int as confirmations,
    a.id as approval_id, a.expires_at as approval_expires_at,
    case when a.status = 'pending' and a.expires_at <= now() then 'expired' else a.status end as approval_status,
    (select coalesce(jsonb_agg(jsonb_build_object(
       'hash', s.hash, 'raw', s.raw, 'purpose', s.purpose, 'block_number', s.block_number, 'succeeded', s.succeeded,
       'is_final', s.final_at is not null, 'offer', s.offer, 'created_at', s.created_at) order by s.version, s.created_at, s.hash), '[]')
     from attempts s where s.transaction_id = t.id) as attempts
  from ${rows} t left join chain_heads h using (chain)
  left join lateral (
    select * from approvals where payment_id = t.id
    order by (status = 'pending') desc, expires_at, id limit 1) a on true`;

/** The row as a client sees it, whoever's it is: for events about it. */
export async function showTransaction(db: Queryable, { id }: { id: string }): Promise<TransactionRow | undefined> {
  const { rows } = await db.query<TransactionRow>(`${shown('transactions')} where t.id = $1`, [id]);
  return rows[0];
}

/** The row, if it is this account's: for the api. */
export async function findTransaction(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<TransactionRow | undefined> {
  const { rows } = await db.query<TransactionRow>(`${shown('transactions')} where t.id = $1 and t.account_id = $2`, [
    id,
    accountId,
  ]);
  return rows[0];
}

export interface TransactionFilter {
  readonly accountId: string;
  readonly agentId?: string | undefined;
  readonly status?: TransactionStatus | undefined;
}

/** The rows of the page first, so that what the client sees beside them is not looked up for those before it. */
const page = `(select * from transactions
  where account_id = $1 and ($2::text is null or agent_id = $2) and ($3::text is null or status = $3)
  order by created_at desc, id desc limit $4 offset $5)`;

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listTransactions(
  db: Queryable,
  { accountId, agentId, status, limit, offset }: TransactionFilter & { limit: number; offset: number },
): Promise<TransactionRow[]> {
  const { rows } = await db.query<TransactionRow>(`${shown(page)} order by t.created_at desc, t.id desc`, [
    accountId,
    agentId ?? null,
    status ?? null,
    limit,
    offset,
  ]);
  return rows;
}

/** Costs the same however many there are. */
export function countTransactions(db: Queryable, { accountId, agentId, status }: TransactionFilter): Promise<number> {
  return readListCount(db, { list: 'transactions', owner: accountId, filter: { agent: agentId, status } });
}

/** Keeps the first decision; a later one changes nothing. */
export async function storeDecision(
  db: Queryable,
  { id, decisionId, decision }: { id: string; decisionId: string; decision: Decision },
): Promise<void> {
  await db.query(
    `update transactions set decision_id = $2, decision = $3, status_detail = $4, updated_at = now()
     where id = $1 and decision is null and status = 'pending'`,
    [
      id,
      decisionId,
      JSON.stringify(decision),
      decision.outcome === 'require_approval' ? 'awaiting_approval' : 'policy_check',
    ],
  );
}

/** A person is asked, or no longer: the payment waits for nothing else. */
export async function markAwaiting(
  db: Queryable,
  { id, isAwaiting }: { id: string; isAwaiting: boolean },
): Promise<void> {
  await db.query(
    `update transactions set status_detail = $2, waiting_since = null, updated_at = now()
     where id = $1 and status = 'pending' and status_detail in ('policy_check', 'awaiting_approval', 'signing')
       and status_detail <> $2`,
    [id, isAwaiting ? 'awaiting_approval' : 'policy_check'],
  );
}

/** The second evaluation decides otherwise than the first one: its words are the ones to be told. */
export async function replaceDecision(
  db: Queryable,
  { id, decision }: { id: string; decision: Decision },
): Promise<void> {
  await db.query(`update transactions set decision = $2 where id = $1 and status = 'pending'`, [
    id,
    JSON.stringify(decision),
  ]);
}

/** Ends a pending payment as failed. @returns whether this call did it */
export async function failTransaction(
  db: Queryable,
  { id, code, message }: { id: string; code: FailureCode; message: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update transactions set status = 'failed', status_detail = 'failed', failure_code = $2, failure_message = $3,
            waiting_since = null, notice = null, unfunded_since = null, updated_at = now()
     where id = $1 and status = 'pending'`,
    [id, code, message],
  );
  return rowCount === 1;
}

/** Ends a pending payment as confirmed, with the facts of its receipt. @returns whether this call did it */
export async function confirmTransaction(
  db: Queryable,
  fact: { id: string; hash: string; feeMinor: string; blockNumber: string; confirmations: number },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update transactions set status = 'confirmed', status_detail = 'confirmed', hash = $2, fee_minor = $3,
            block_number = $4, confirmations = greatest(confirmations, $5), waiting_since = null, notice = null,
            unfunded_since = null, updated_at = now()
     where id = $1 and status = 'pending'`,
    [fact.id, fact.hash, fact.feeMinor, fact.blockNumber, fact.confirmations],
  );
  return rowCount === 1;
}

/** A reverted payment costs its fee; the row says so as well. */
export async function noteReceipt(
  db: Queryable,
  fact: { id: string; hash: string; feeMinor: string; blockNumber: string; confirmations: number },
): Promise<void> {
  await db.query(
    `update transactions set hash = $2, fee_minor = $3, block_number = $4, confirmations = greatest(confirmations, $5)
     where id = $1`,
    [fact.id, fact.hash, fact.feeMinor, fact.blockNumber, fact.confirmations],
  );
}

/** The payment has its nonce and goes to the signers. */
export async function markSigning(db: Queryable, { id, nonce }: { id: string; nonce: number | null }): Promise<void> {
  await db.query(
    `update transactions set nonce = $2, status_detail = 'signing', waiting_since = null, notice = null,
            unfunded_since = null, updated_at = now()
     where id = $1 and status = 'pending'`,
    [id, nonce],
  );
}

/** Says what a pending payment waits for; null when that is nothing unusual any more. */
export async function putNotice(db: Queryable, { id, notice }: { id: string; notice: string | null }): Promise<void> {
  await db.query(
    `update transactions set notice = $2, unfunded_since = case when $2 is null then null else unfunded_since end
     where id = $1 and status = 'pending' and notice is distinct from $2`,
    [id, notice],
  );
}

/**
 * Notes that a pending payment's wallet lacks the money for it.
 * @returns since when, and whether that is new
 */
export async function markUnfunded(
  db: Queryable,
  { id, notice, now }: { id: string; notice: string; now: Date },
): Promise<{ since: Date; isNew: boolean } | undefined> {
  const { rows } = await db.query<{ since: Date; is_new: boolean }>(
    `update transactions t set notice = $2, unfunded_since = coalesce(t.unfunded_since, $3)
     from transactions before where t.id = $1 and t.status = 'pending' and before.id = t.id
     returning t.unfunded_since as since, before.unfunded_since is null as is_new`,
    [id, notice, now],
  );
  return rows[0] && { since: rows[0].since, isNew: rows[0].is_new };
}

/** The payment waits until one of its wallet's payments in flight ends. */
export async function markWaiting(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query(
    `update transactions set waiting_since = coalesce(waiting_since, now()), woken_at = null, updated_at = now()
     where id = $1 and status = 'pending'`,
    [id],
  );
}

/**
 * The payment that has waited longest for a nonce of this wallet, if one waits. Each is taken once, so that several
 * nonces that become free together wake as many payments.
 */
export async function takeLongestWaiting(
  db: Queryable,
  { walletId, chain }: { walletId: string; chain: string },
): Promise<string | undefined> {
  const { rows } = await db.query<{ id: string }>(
    `update transactions set woken_at = now()
     where id = (
       select id from transactions
       where wallet_id = $1 and chain = $2 and waiting_since is not null and woken_at is null
       order by waiting_since, id limit 1 for update skip locked)
     returning id`,
    [walletId, chain],
  );
  return rows[0]?.id;
}
