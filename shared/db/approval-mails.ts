import type { Queryable } from './pool.ts';

export interface ApprovalMailRow {
  readonly approval_id: string;
  readonly approver: string;
  readonly status: 'waiting' | 'sent' | 'failed';
  readonly attempts: number;
  readonly error: string | null;
  readonly sent_at: Date | null;
}

/** Notes that each approver is to be told. */
export async function insertApprovalMails(
  db: Queryable,
  { approvalId, approvers }: { approvalId: string; approvers: readonly string[] },
): Promise<void> {
  await db.query('insert into approval_mails (approval_id, approver) select $1, unnest($2::text[])', [
    approvalId,
    approvers,
  ]);
}

export async function approvalMailsOf(
  db: Queryable,
  { approvalId }: { approvalId: string },
): Promise<ApprovalMailRow[]> {
  const { rows } = await db.query<ApprovalMailRow>(
    'select * from approval_mails where approval_id = $1 order by approver',
    [approvalId],
  );
  return rows;
}

/** Notes how an attempt ended. A mail that was sent stays sent. */
export async function noteApprovalMail(
  db: Queryable,
  {
    approvalId,
    approver,
    status,
    error,
  }: { approvalId: string; approver: string; status: 'waiting' | 'sent' | 'failed'; error: string | null },
): Promise<void> {
  await db.query(
    `update approval_mails set status = $3, error = $4, attempts = attempts + 1,
            sent_at = case when $3 = 'sent' then now() end
     where approval_id = $1 and approver = $2 and status <> 'sent'`,
    [approvalId, approver, status, error],
  );
}
