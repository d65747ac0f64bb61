import type { AuditEntry } from '../../shared/audit-chain.ts';
import { verifyChain } from '../../shared/audit-chain.ts';
import { createAccount } from '../../shared/db/accounts.ts';
import { bySystem, insertAudit, type NewAuditEntry } from '../../shared/db/audit.ts';
import type { AuditLogRow } from '../../shared/db/audit-logs.ts';
import type { Pool, Queryable } from '../../shared/db/pool.ts';
import { renderAudit } from '../../shared/render-audit.ts';

/** Writes an entry as the service does; what is not given is made up. */
export function note(db: Queryable, accountId: string, more: Partial<NewAuditEntry> = {}): Promise<void> {
  return insertAudit(db, {
    accountId,
    action: 'policy.updated',
    acting: bySystem,
    resourceType: 'policy',
    resourceId: 'pol_1',
    result: 'success',
    ...more,
  });
}

export const newAccount = (pool: Pool) => createAccount(pool, { name: 'test', plan: 'enterprise' });

/** Writes many entries at once, a millisecond apart, the last one now. */
export async function noteMany(db: Queryable, accountId: string, count: number): Promise<void> {
  await db.query(
    `insert into audit_inbox (id, account_id, action, actor_type, resource_type, resource_id, result, metadata, created_at)
     select 'aud_' || gen_random_uuid(), $1, 'policy.updated', 'system', 'policy', 'pol_1',
            'success', json_build_object('number', i), clock_timestamp() - ($2::int - i) * interval '1 millisecond'
     from generate_series(1, $2::int) i`,
    [accountId, count],
  );
}

/** The account's chain as it is stored, in its order. */
async function storedChain(db: Queryable, accountId: string): Promise<AuditEntry[]> {
  const { rows } = await db.query<AuditLogRow>('select * from audit_logs where account_id = $1 order by seq, id', [
    accountId,
  ]);
  return rows.map(renderAudit);
}

/** Follows the stored chain to its head. @throws where it is broken @returns its entries */
export async function wholeChain(db: Queryable, accountId: string): Promise<AuditEntry[]> {
  const { rows } = await db.query<{ seq: string; hash: string }>(
    'select seq, hash from audit_heads where account_id = $1',
    [accountId],
  );
  const heads = rows.map(({ seq, hash }) => ({ seq: Number(seq), hash }));
  const entries = await storedChain(db, accountId);
  const report = await verifyChain(entries, { heads });
  if (!report.valid || report.last.seq !== (heads[0]?.seq ?? 0)) throw new Error(JSON.stringify({ ...report, heads }));
  return entries;
}

/** How many entries have no place yet. */
export async function unsealed(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ count: string }>('select count(*) from audit_inbox');
  return Number(rows[0]!.count);
}
