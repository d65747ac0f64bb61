import type { Address, Hex } from 'viem';
import type { ApprovalStatus } from '../domain/approval.ts';
import type { Decision } from '../domain/policy/engine.ts';
import { replacedSlotsMax } from '../domain/slot.ts';
import type { AuthorizationStamp } from '../domain/x402.ts';
import type { Queryable } from './pool.ts';

/** Why an x402 payment came to nothing. */
export type X402FailureCode =
  | 'policy_violation'
  | 'approval_rejected'
  | 'approval_timeout'
  | 'agent_inactive'
  | 'session_expired'
  | 'signing_failed';

/** What the target wants, as it wrote it: echoed to it member by member, unknown ones included. */
export interface StoredOffer {
  /** `ResourceInfo` of version 2; null where there is none. */
  readonly resource: unknown;
  /** The accepted element of `accepts`. */
  readonly accepted: Record<string, unknown>;
  readonly extensions: unknown;
}

/** A row of `x402_payments`. Columns of type numeric and bigint are decimal strings. */
export interface X402PaymentRow {
  readonly id: string;
  readonly session_id: string;
  readonly account_id: string;
  readonly agent_id: string;
  readonly wallet_id: string;
  readonly chain: string;
  readonly token: string;
  readonly asset: Address;
  readonly decimals: number;
  readonly amount_minor: string;
  readonly fee_minor: string;
  readonly fee_rate: string;
  readonly from_address: Address;
  readonly to_address: Address;
  readonly target_url: string;
  readonly method: string;
  readonly x402_version: 1 | 2;
  readonly offer: StoredOffer;
  readonly domain_name: string;
  readonly domain_version: string;
  readonly window_seconds: number;
  readonly status: 'pending' | 'completed' | 'failed';
  readonly status_detail: 'created' | 'awaiting_approval' | 'signing' | 'completed' | 'failed';
  readonly failure_code: X402FailureCode | null;
  readonly failure_message: string | null;
  readonly ending_code: X402FailureCode | null;
  readonly ending_message: string | null;
  readonly decision_id: string | null;
  readonly decision: Decision | null;
  readonly auth_nonce: Hex | null;
  /** Nonces of authorisations that it had before, oldest first: as many of the newest as a receipt can name. */
  readonly former_nonces: readonly Hex[];
  /** Unix seconds. */
  readonly valid_after: string | null;
  readonly valid_before: string | null;
  /** The header's value. */
  readonly payment_signature: string | null;
  readonly settlement: 'unsettled' | 'settled' | 'expired' | null;
  readonly tx_hash: string | null;
  readonly block_number: string | null;
  readonly settled_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  /** The question to a person, where one is asked and the row was read for the api. */
  readonly approval_id?: string | null;
  readonly approval_status?: ApprovalStatus | null;
  readonly approval_expires_at?: Date | null;
}

export interface NewX402Payment {
  readonly id: string;
  readonly sessionId: string;
  readonly accountId: string;
  readonly agentId: string;
  readonly walletId: string;
  readonly chain: string;
  readonly token: string;
  readonly asset: Address;
  readonly decimals: number;
  readonly amountMinor: bigint;
  readonly feeMinor: bigint;
  readonly feeRate: string;
  readonly fromAddress: string;
  readonly toAddress: string;
  readonly targetUrl: string;
  readonly method: string;
  readonly x402Version: 1 | 2;
  readonly offer: StoredOffer;
  readonly domainName: string;
  readonly domainVersion: string;
  readonly windowSeconds: number;
}

/** Stores a payment as `pending` / `created`; the row is the outbox from which its workflow is started. */
export async function insertX402Payment(db: Queryable, payment: NewX402Payment): Promise<X402PaymentRow> {
  const { rows } = await db.query<X402PaymentRow>(
    `insert into x402_payments (id, session_id, account_id, agent_id, wallet_id, chain, token, asset, decimals,
                                amount_minor, fee_minor, fee_rate, from_address, to_address, target_url, method,
                                x402_version, offer, domain_name, domain_version, window_seconds)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
     returning *`,
    [
      payment.id,
      payment.sessionId,
      payment.accountId,
      payment.agentId,
      payment.walletId,
      payment.chain,
      payment.token,
      payment.asset,
      payment.decimals,
      payment.amountMinor.toString(),
      payment.feeMinor.toString(),
      payment.feeRate,
      payment.fromAddress,
      payment.toAddress,
      payment.targetUrl,
      payment.method,
      payment.x402Version,
      JSON.stringify(payment.offer),
      payment.domainName,
      payment.domainVersion,
      payment.windowSeconds,
    ],
  );
  return rows[0]!;
}

/** The row, whoever's it is: for workers. */
export async function getX402Payment(db: Queryable, { id }: { id: string }): Promise<X402PaymentRow | undefined> {
  const { rows } = await db.query<X402PaymentRow>('select * from x402_payments where id = $1', [id]);
  return rows[0];
}

/** The row, locked until the database transaction ends. Lock agent and session first. */
export async function lockX402Payment(db: Queryable, { id }: { id: string }): Promise<X402PaymentRow | undefined> {
  const { rows } = await db.query<X402PaymentRow>('select * from x402_payments where id = $1 for update', [id]);
  return rows[0];
}

/** As a client sees it: with the question that is open, or the last one. */
const shown = `select p.*, a.id as approval_id, a.expires_at as approval_expires_at,
    case when a.status = 'pending' and a.expires_at <= now() then 'expired' else a.status end as approval_status
  from x402_payments p left join lateral (
    select * from approvals where payment_id = p.id
    order by (status = 'pending') desc, expires_at, id limit 1) a on true`;

/** The row, if it is this account's. */
export async function findX402Payment(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<X402PaymentRow | undefined> {
  const { rows } = await db.query<X402PaymentRow>(`${shown} where p.id = $1 and p.account_id = $2`, [id, accountId]);
  return rows[0];
}

/** One page of a session's payments, newest first. */
export async function listX402Payments(
  db: Queryable,
  { sessionId, limit, offset }: { sessionId: string; limit: number; offset: number },
): Promise<X402PaymentRow[]> {
  const { rows } = await db.query<X402PaymentRow>(
    `${shown} where p.session_id = $1 order by p.created_at desc, p.id desc limit $2 offset $3`,
    [sessionId, limit, offset],
  );
  return rows;
}

export async function countX402Payments(db: Queryable, { sessionId }: { sessionId: string }): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from x402_payments where session_id = $1',
    [sessionId],
  );
  return rows[0]!.count;
}

/** Stores what the policies decided, at the first evaluation or a later one. */
export async function storeX402Decision(
  db: Queryable,
  { id, decisionId, decision }: { id: string; decisionId: string; decision: Decision },
): Promise<void> {
  await db.query('update x402_payments set decision_id = $2, decision = $3, updated_at = now() where id = $1', [
    id,
    decisionId,
    JSON.stringify(decision),
  ]);
}

export async function markX402Awaiting(
  db: Queryable,
  { id, isAwaiting }: { id: string; isAwaiting: boolean },
): Promise<void> {
  await db.query(
    `update x402_payments set status_detail = case when $2 then 'awaiting_approval' else 'created' end, updated_at = now()
     where id = $1 and status_detail in ('created', 'awaiting_approval')`,
    [id, isAwaiting],
  );
}

/** Notes the authorisation that is going to be signed. From now on it has to be reckoned with until it is over. */
export async function stampX402Payment(
  db: Queryable,
  { id, stamp }: { id: string; stamp: AuthorizationStamp },
): Promise<void> {
  await db.query(
    `update x402_payments set auth_nonce = $2, valid_after = $3, valid_before = $4, settlement = 'unsettled',
            status_detail = 'signing', updated_at = now()
     where id = $1 and status = 'pending' and auth_nonce is null`,
    [id, stamp.nonce, stamp.validAfter, stamp.validBefore],
  );
}

/** The authorisation that was never handed out is over and was not used: another one may be made. */
export async function clearX402Stamp(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query(
    `update x402_payments set auth_nonce = null, valid_after = null, valid_before = null, settlement = null,
            former_nonces = (former_nonces || auth_nonce)[greatest(cardinality(former_nonces) + 2 - $2, 1):],
            status_detail = 'created', updated_at = now()
     where id = $1 and status = 'pending'`,
    [id, replacedSlotsMax],
  );
}

/** Hands the authorisation out: from now on whoever has the header can have it settled. */
export async function completeX402Payment(
  db: Queryable,
  { id, paymentSignature }: { id: string; paymentSignature: string },
): Promise<void> {
  await db.query(
    `update x402_payments set status = 'completed', status_detail = 'completed', payment_signature = $2,
            ending_code = null, ending_message = null, updated_at = now()
     where id = $1 and status = 'pending'`,
    [id, paymentSignature],
  );
}

/** Notes what the payment is to fail with once nothing can come any more of what may have been signed. */
export async function noteX402Ending(
  db: Queryable,
  { id, code, message }: { id: string; code: X402FailureCode; message: string },
): Promise<void> {
  await db.query(
    `update x402_payments set ending_code = $2, ending_message = $3, updated_at = now()
     where id = $1 and status = 'pending' and ending_code is null`,
    [id, code, message],
  );
}

/** The payment came to nothing; a stamp that it had is over. */
export async function failX402Payment(
  db: Queryable,
  { id, code, message }: { id: string; code: X402FailureCode; message: string },
): Promise<void> {
  await db.query(
    `update x402_payments set status = 'failed', status_detail = 'failed', failure_code = $2, failure_message = $3,
            settlement = case when auth_nonce is null then null else 'expired' end, updated_at = now()
     where id = $1 and status = 'pending'`,
    [id, code, message],
  );
}

/** A header that was handed out was not used and is over. */
export async function expireX402Payment(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query(
    `update x402_payments set settlement = 'expired', updated_at = now()
     where id = $1 and status = 'completed' and settlement = 'unsettled'`,
    [id],
  );
}

/** The authorisation was used, for good; also one that we had not handed out. */
export async function settleX402Payment(
  db: Queryable,
  { id, txHash, blockNumber, blockHash }: { id: string; txHash: string; blockNumber: number; blockHash: string },
): Promise<void> {
  await db.query(
    `update x402_payments set status = 'completed', status_detail = 'completed', settlement = 'settled', tx_hash = $2,
            block_number = $3, block_hash = $4, settled_at = now(), ending_code = null, ending_message = null,
            updated_at = now()
     where id = $1 and settlement = 'unsettled'`,
    [id, txHash, blockNumber, blockHash],
  );
}
