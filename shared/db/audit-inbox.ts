import type { Queryable } from './pool.ts';

/** An entry that has no place in its account's chain yet. Earlier versions wrote fewer members. */
export interface AuditInboxRow {
  readonly id: string;
  readonly account_id: string;
  readonly action: string;
  readonly actor_type: string;
  readonly actor_id: string | null;
  readonly actor_name: string | null;
  readonly resource_type: string;
  readonly resource_id: string | null;
  readonly agent_id: string | null;
  readonly result: string;
  readonly ip_address: string | null;
  readonly user_agent: string | null;
  readonly request_id: string | null;
  readonly changes: unknown;
  readonly metadata: unknown;
  readonly created_at: Date;
}

/**
 * Some accounts whose entries wait for their place, in the order of their ids; each found by one step in the index,
 * however many entries it has.
 * @param after the last account of the batch before; empty for the first
 */
export async function accountsWithUnsealed(
  db: Queryable,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const { rows } = await db.query<{ account_id: string }>(
    `with recursive waiting (account_id) as (
       (select account_id from audit_inbox where account_id > $1 order by account_id limit 1)
       union all
       select (select i.account_id from audit_inbox i where i.account_id > w.account_id order by i.account_id limit 1)
       from waiting w where w.account_id is not null)
     select account_id from waiting where account_id is not null limit $2`,
    [after, limit],
  );
  return rows.map((row) => row.account_id);
}

/** The account's entries that have waited longest, in the order in which they get their places. */
export async function oldestUnsealed(
  db: Queryable,
  { accountId, limit }: { accountId: string; limit: number },
): Promise<AuditInboxRow[]> {
  const { rows } = await db.query<AuditInboxRow>(
    'select * from audit_inbox where account_id = $1 order by created_at, id limit $2',
    [accountId, limit],
  );
  return rows;
}

/** Takes out what has got its place. @returns how many were there */
export async function deleteUnsealed(db: Queryable, { ids }: { ids: readonly string[] }): Promise<number> {
  const { rowCount } = await db.query('delete from audit_inbox where id = any($1::text[])', [ids]);
  return rowCount!;
}
