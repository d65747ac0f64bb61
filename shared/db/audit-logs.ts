import type { AuditInboxRow } from './audit-inbox.ts';
import { isCounted, readListCount } from './list-counts.ts';
import type { Queryable } from './pool.ts';

/** An entry with its place in the chain. */
export interface AuditLogRow extends AuditInboxRow {
  /** A decimal string where it was read. */
  readonly seq: string | number;
  readonly prev_hash: string;
  readonly hash: string;
}

/** Adds entries at the end of their account's chain; the caller holds the lock of its head. */
export async function insertAuditLogs(db: Queryable, rows: readonly AuditLogRow[]): Promise<void> {
  const column = (name: keyof AuditLogRow) => rows.map((row) => row[name]);
  // Not one JSON text of all: Postgres reads NUL in a member of another JSON text as an error, and keeps it by itself.
  const json = (name: 'changes' | 'metadata') =>
    rows.map((row) => (row[name] === null ? null : JSON.stringify(row[name])));
  await db.query(
    `insert into audit_logs (id, account_id, seq, action, actor_type, actor_id, actor_name, resource_type, resource_id,
                             agent_id, result, ip_address, user_agent, request_id, changes, metadata, prev_hash, hash,
                             created_at)
     select * from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                          $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
                          $15::json[], $16::json[], $17::text[], $18::text[], $19::timestamptz[])`,
    [
      column('id'),
      column('account_id'),
      column('seq'),
      column('action'),
      column('actor_type'),
      column('actor_id'),
      column('actor_name'),
      column('resource_type'),
      column('resource_id'),
      column('agent_id'),
      column('result'),
      column('ip_address'),
      column('user_agent'),
      column('request_id'),
      json('changes'),
      json('metadata'),
      column('prev_hash'),
      column('hash'),
      column('created_at'),
    ],
  );
}

/** After which row a batch goes on: all that orders rows of a chain, also where two of them have one number. */
interface ChainCursor {
  readonly seq: string | number;
  readonly id: string;
  readonly created_at: Date;
}

/** One batch of a chain in its order, the numbers inclusive. @param after the last row of the batch before */
async function listChain(
  db: Queryable,
  {
    accountId,
    fromSeq,
    toSeq,
    after,
    limit,
  }: { accountId: string; fromSeq: number; toSeq: number; after: ChainCursor | undefined; limit: number },
): Promise<AuditLogRow[]> {
  const { rows } = await db.query<AuditLogRow>(
    `select * from audit_logs
     where account_id = $1 and seq >= $2 and seq <= $3 and ($4::text is null or (seq, id, created_at) > ($2, $4, $5))
     order by seq, id, created_at limit $6`,
    [accountId, after?.seq ?? fromSeq, toSeq, after?.id ?? null, after?.created_at ?? null, limit],
  );
  return rows;
}

/**
 * A chain in its order, batch by batch; between two of them it holds no connection. Both numbers are inclusive, and
 * rows of any number are told, also ones that cannot be.
 */
export async function* readChain(
  db: Queryable,
  { accountId, fromSeq, toSeq, batch }: { accountId: string; fromSeq: number; toSeq: number; batch: number },
): AsyncGenerator<AuditLogRow[]> {
  let after: ChainCursor | undefined;
  for (;;) {
    const rows = await listChain(db, { accountId, fromSeq, toSeq, after, limit: batch });
    if (rows.length > 0) yield rows;
    if (rows.length < batch) return;
    after = rows.at(-1)!;
  }
}

/** The hash that the entry with this number says it has. */
export async function hashOfEntry(
  db: Queryable,
  { accountId, seq }: { accountId: string; seq: number },
): Promise<string | undefined> {
  const { rows } = await db.query<{ hash: string }>('select hash from audit_logs where account_id = $1 and seq = $2', [
    accountId,
    seq,
  ]);
  return rows[0]?.hash;
}

export interface AuditFilter {
  readonly accountId: string;
  readonly action?: string | undefined;
  readonly actorId?: string | undefined;
  readonly resourceType?: string | undefined;
  readonly resourceId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly result?: string | undefined;
  /** Inclusive. */
  readonly from?: Date | undefined;
  /** Exclusive. */
  readonly to?: Date | undefined;
}

const filtered = `account_id = $1 and ($2::text is null or action = $2) and ($3::text is null or actor_id = $3)
  and ($4::text is null or resource_type = $4) and ($5::text is null or resource_id = $5)
  and ($6::text is null or agent_id = $6) and ($7::text is null or result = $7)
  and ($8::timestamptz is null or created_at >= $8) and ($9::timestamptz is null or created_at < $9)`;

const valuesOf = (filter: AuditFilter) => [
  filter.accountId,
  filter.action ?? null,
  filter.actorId ?? null,
  filter.resourceType ?? null,
  filter.resourceId ?? null,
  filter.agentId ?? null,
  filter.result ?? null,
  filter.from ?? null,
  filter.to ?? null,
];

/** One page, newest first; rows of one instant are ordered by id, so that pages never overlap. */
export async function listAuditLogs(
  db: Queryable,
  { limit, offset, ...filter }: AuditFilter & { limit: number; offset: number },
): Promise<AuditLogRow[]> {
  const { rows } = await db.query<AuditLogRow>(
    `select * from audit_logs where ${filtered} order by created_at desc, id desc limit $10 offset $11`,
    [...valuesOf(filter), limit, offset],
  );
  return rows;
}

/** Kept counts serve what they are kept for; what is narrower is counted row by row. */
export async function countAuditLogs(db: Queryable, filter: AuditFilter): Promise<number> {
  const { accountId, action, actorId, resourceType, resourceId, agentId, result, from, to } = filter;
  const counted = { action, actor: actorId, resource_type: resourceType, agent: agentId, result };
  const isNarrower = resourceId !== undefined || from !== undefined || to !== undefined;
  if (!isNarrower && isCounted('audit_logs', counted))
    return readListCount(db, { list: 'audit_logs', owner: accountId, filter: counted });
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from audit_logs where ${filtered}`,
    valuesOf(filter),
  );
  return rows[0]!.count;
}
