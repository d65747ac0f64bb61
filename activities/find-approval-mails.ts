import { approvalMailsOf } from '../shared/db/approval-mails.ts';
import { getApproval } from '../shared/db/approvals.ts';
import type { Clock } from '../shared/db/clock.ts';
import type { Pool } from '../shared/db/pool.ts';
import { notFound } from './failures.ts';

/** Who has still to be told of a question, and for how long that makes sense; nobody of one that is over. */
export function createFindApprovalMails({ pool, clock }: { pool: Pool; clock: Clock }) {
  return async function findApprovalMails(
    approvalId: string,
  ): Promise<{ readonly approvers: readonly string[]; readonly leftMs: number }> {
    const approval = await getApproval(pool, { id: approvalId });
    if (!approval) throw notFound(`Approval ${approvalId}`);
    const leftMs = Math.max(1, approval.expires_at.getTime() - (await clock(pool)).getTime());
    if (approval.status !== 'pending') return { approvers: [], leftMs };
    const mails = await approvalMailsOf(pool, { approvalId });
    return { approvers: mails.filter(({ status }) => status !== 'sent').map(({ approver }) => approver), leftMs };
  };
}
