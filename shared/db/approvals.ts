import type { ApprovalDecision, ApprovalStatus } from '../domain/approval.ts';
import type { ApprovalDemand } from '../domain/policy/types.ts';
import { newId } from '../ids.ts';
import type { Queryable } from './pool.ts';

export interface ApprovalRow {
  readonly id: string;
  readonly account_id: string;
  readonly agent_id: string;
  /** The transaction, or the payment out of an x402 session. */
  readonly payment_id: string;
  readonly policy_id: string;
  readonly threshold: string;
  readonly required_approvals: number;
  readonly approvers: readonly string[];
  readonly decisions: readonly ApprovalDecision[];
  readonly status: ApprovalStatus;
  readonly expires_at: Date;
  readonly created_at: Date;
  readonly decided_at: Date | null;
}

/** How one approver was told. */
export interface ApprovalNotice {
  readonly approver: string;
  readonly status: 'waiting' | 'sent' | 'failed';
  readonly error: string | null;
  /** ISO 8601. */
  readonly sent_at: string | null;
}

/** A question with what it is about. */
export interface ShownApproval extends ApprovalRow {
  readonly chain: string;
  readonly token: string;
  readonly decimals: number;
  readonly amount_minor: string;
  readonly from_address: string;
  readonly to_address: string;
  readonly memo: string | null;
  /** What an x402 payment pays for. */
  readonly target_url: string | null;
  readonly agent_name: string;
  readonly agent_description: string | null;
  readonly account_name: string;
  readonly notices: readonly ApprovalNotice[];
}

/** Asks a person, as one policy wants it; once for each payment and policy. @returns the question, if it is a new one */
export async function insertApproval(
  db: Queryable,
  {
    accountId,
    agentId,
    paymentId,
    demand,
    now,
  }: { accountId: string; agentId: string; paymentId: string; demand: ApprovalDemand; now: Date },
): Promise<ApprovalRow | undefined> {
  const { rows } = await db.query<ApprovalRow>(
    `insert into approvals (id, account_id, agent_id, payment_id, policy_id, threshold, required_approvals,
                            approvers, expires_at, created_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9::timestamptz + $10 * interval '1 second', $9)
     on conflict (payment_id, policy_id) where status in ('pending', 'approved') do nothing
     returning *`,
    [
      newId('apr'),
      accountId,
      agentId,
      paymentId,
      demand.policy_id,
      demand.threshold,
      demand.required_approvals,
      demand.approvers,
      now,
      demand.timeout_seconds,
    ],
  );
  return rows[0];
}

export async function approvalsOfPayment(db: Queryable, { paymentId }: { paymentId: string }): Promise<ApprovalRow[]> {
  const { rows } = await db.query<ApprovalRow>(
    'select * from approvals where payment_id = $1 order by expires_at, id',
    [paymentId],
  );
  return rows;
}

/** The question, locked until the database transaction ends. Lock the agent first. */
export async function lockApproval(db: Queryable, { id }: { id: string }): Promise<ApprovalRow | undefined> {
  const { rows } = await db.query<ApprovalRow>('select * from approvals where id = $1 for update', [id]);
  return rows[0];
}

/**
 * The one statement by which an open question moves on, a decision as well as the timer's expiry: whichever comes
 * first, it holds only while the question is pending, nobody else has decided since, and on the right side of
 * `expires_at`.
 * @returns whether it moved
 */
export async function moveApproval(
  db: Queryable,
  {
    seen,
    status,
    decisions,
    now,
  }: { seen: ApprovalRow; status: ApprovalStatus; decisions: readonly ApprovalDecision[]; now: Date },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update approvals set status = $2, decisions = $3,
            decided_at = case when $2 = 'pending' then null else $4::timestamptz end,
            reminder_at = case when $2 in ('approved', 'rejected') then now() + interval '2 seconds' end
     where id = $1 and status = 'pending' and jsonb_array_length(decisions) = $5
       and (expires_at <= $4) = ($2 = 'expired')`,
    [seen.id, status, JSON.stringify(decisions), now, seen.decisions.length],
  );
  return rowCount === 1;
}

/** Withdraws the open questions of a payment that has ended. */
export async function cancelApprovals(db: Queryable, { paymentId }: { paymentId: string }): Promise<void> {
  await db.query(
    `update approvals set status = 'cancelled', decided_at = now() where payment_id = $1 and status = 'pending'`,
    [paymentId],
  );
}

/** Withdraws one question that its policy asks no longer, also one that was answered. */
export async function withdrawApproval(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query(
    `update approvals set status = 'cancelled', decided_at = now() where id = $1 and status in ('pending', 'approved')`,
    [id],
  );
}

/** A question that nobody answered in time is shown as expired also before its timer says so. */
const shownStatus = `case when a.status = 'pending' and a.expires_at <= now() then 'expired' else a.status end`;

const shown = `select a.*, ${shownStatus} as status, t.chain, t.token, t.decimals, t.amount_minor, t.from_address,
    t.to_address, t.memo, t.target_url, g.agent_name, g.agent_description, c.name as account_name,
    coalesce((select jsonb_agg(jsonb_build_object('approver', m.approver, 'status', m.status, 'error', m.error,
                'sent_at', to_char(m.sent_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) order by m.approver)
              from approval_mails m where m.approval_id = a.id), '[]') as notices
  from approvals a join payments t on t.id = a.payment_id join agents g on g.id = a.agent_id
  join accounts c on c.id = a.account_id`;

/** One question, whoever's it is: for workers and for the holder of a link. */
export async function getApproval(db: Queryable, { id }: { id: string }): Promise<ShownApproval | undefined> {
  const { rows } = await db.query<ShownApproval>(`${shown} where a.id = $1`, [id]);
  return rows[0];
}

/** One question, if it is this account's. */
export async function findApproval(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
): Promise<ShownApproval | undefined> {
  const { rows } = await db.query<ShownApproval>(`${shown} where a.id = $1 and a.account_id = $2`, [id, accountId]);
  return rows[0];
}

export interface ApprovalFilter {
  readonly accountId: string;
  readonly agentId?: string | undefined;
  readonly status?: ApprovalStatus | undefined;
}

/** Both halves of each status, so that an index serves them: what is stored, and what the clock makes of it. */
const ofStatus = `($3::text is null
    or (a.status = $3 and (a.status <> 'pending' or a.expires_at > now()))
    or ($3 = 'expired' and a.status = 'pending' and a.expires_at <= now()))`;
const ofAccount = `a.account_id = $1 and ($2::text is null or a.agent_id = $2) and ${ofStatus}`;

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listApprovals(
  db: Queryable,
  { accountId, agentId, status, limit, offset }: ApprovalFilter & { limit: number; offset: number },
): Promise<ShownApproval[]> {
  const { rows } = await db.query<ShownApproval>(
    // The page is cut first: what is passed over needs no payment, agent or notices looked up.
    `${shown} where a.id in (select a.id from approvals a where ${ofAccount}
                             order by a.created_at desc, a.id desc limit $4 offset $5)
     order by a.created_at desc, a.id desc`,
    [accountId, agentId ?? null, status ?? null, limit, offset],
  );
  return rows;
}

export async function countApprovals(db: Queryable, { accountId, agentId, status }: ApprovalFilter): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from approvals a where ${ofAccount}`,
    [accountId, agentId ?? null, status ?? null],
  );
  return rows[0]!.count;
}

/** Has the payments of an agent that wait for an answer look again: its policies change. */
export async function remindOfAgent(db: Queryable, { agentId }: { agentId: string }): Promise<void> {
  await db.query(`update approvals set reminder_at = now() where agent_id = $1 and status = 'pending'`, [agentId]);
}

/** Likewise those out of a session, which has ended. */
export async function remindOfSession(db: Queryable, { sessionId }: { sessionId: string }): Promise<void> {
  await db.query(
    `update approvals set reminder_at = now()
     where status = 'pending'
       and payment_id in (select id from x402_payments where session_id = $1 and status = 'pending')`,
    [sessionId],
  );
}

/** Payments that still wait although there is something for them to read; each is given out once for each cause. */
export async function takeReminders(db: Queryable, { limit }: { limit: number }): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `with due as (
       update approvals set reminder_at = null
       where id in (select id from approvals where reminder_at <= now() order by reminder_at, id limit $1
                    for update skip locked)
       returning payment_id)
     select distinct t.id from due join payments t on t.id = due.payment_id
     where t.status = 'pending' and t.status_detail = 'awaiting_approval'`,
    [limit],
  );
  return rows.map(({ id }) => id);
}
