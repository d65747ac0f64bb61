import type { Queryable } from './pool.ts';

/** Links that one person may hold to one question: an attempt whose mail may have arrived leaves one behind. */
const maxLinksPerPerson = 5;

export interface ApprovalLinkRow {
  readonly approval_id: string;
  readonly approver: string;
  readonly created_at: Date;
  readonly used_at: Date | null;
}

/** Stores a new link by the hash of its token; the oldest ones of the same person give way. */
export async function insertApprovalLink(
  db: Queryable,
  { tokenHash, approvalId, approver }: { tokenHash: Buffer; approvalId: string; approver: string },
): Promise<void> {
  await db.query('insert into approval_links (token_hash, approval_id, approver) values ($1, $2, $3)', [
    tokenHash,
    approvalId,
    approver,
  ]);
  await db.query(
    `delete from approval_links where token_hash in (
       select token_hash from approval_links where approval_id = $1 and approver = $2 and used_at is null
       order by created_at desc, token_hash offset $3)`,
    [approvalId, approver, maxLinksPerPerson],
  );
}

/** The link of a token, used or not. */
export async function findApprovalLink(
  db: Queryable,
  { tokenHash }: { tokenHash: Buffer },
): Promise<ApprovalLinkRow | undefined> {
  const { rows } = await db.query<ApprovalLinkRow>('select * from approval_links where token_hash = $1', [tokenHash]);
  return rows[0];
}

/** Takes the link: it decides once. @returns whether this call took it */
export async function takeApprovalLink(db: Queryable, { tokenHash }: { tokenHash: Buffer }): Promise<boolean> {
  const { rowCount } = await db.query(
    'update approval_links set used_at = now() where token_hash = $1 and used_at is null',
    [tokenHash],
  );
  return rowCount === 1;
}
