import { type ChainPlace, chainStart } from '../audit-chain.ts';
import type { Queryable } from './pool.ts';

/** Where an account's chain ends. */
export interface AuditHead extends ChainPlace {
  /** Of the last entry. */
  readonly createdAt: Date;
}

interface HeadRow {
  readonly seq: string;
  readonly hash: string;
  readonly created_at: Date;
}

/** Makes the row that is locked, where an account has none yet. */
export async function ensureAuditHead(db: Queryable, { accountId }: { accountId: string }): Promise<void> {
  await db.query(
    `insert into audit_heads (account_id, seq, hash, created_at) values ($1, 0, $2, 'epoch')
     on conflict (account_id) do nothing`,
    [accountId, chainStart.hash],
  );
}

/**
 * Where the chain ends, locked until the database transaction ends: whoever has the lock may lengthen the chain.
 * @returns nothing while another one has it
 */
export async function lockAuditHead(
  db: Queryable,
  { accountId }: { accountId: string },
): Promise<AuditHead | undefined> {
  const { rows } = await db.query<HeadRow>(
    'select seq, hash, created_at from audit_heads where account_id = $1 for update skip locked',
    [accountId],
  );
  const [row] = rows;
  return row && { seq: Number(row.seq), hash: row.hash, createdAt: row.created_at };
}

/** Moves the end on. */
export async function moveAuditHead(
  db: Queryable,
  { accountId, seq, hash, createdAt }: AuditHead & { accountId: string },
): Promise<void> {
  await db.query(
    'update audit_heads set seq = $2, hash = $3, created_at = $4, sealed_at = clock_timestamp() where account_id = $1',
    [accountId, seq, hash, createdAt],
  );
}

/** How an account's chain stands. */
export interface ChainState {
  readonly head: ChainPlace & { readonly created_at: Date | null; readonly sealed_at: Date | null };
  /** Number of the last entry that is there: that of the head. */
  readonly lastSeq: number;
  /** The last entry that retention has taken away, where it has. */
  readonly checkpoint: ChainPlace | null;
  readonly unsealed: { readonly count: number; readonly oldest_created_at: Date | null };
}

interface StateRow {
  readonly head_seq: string | null;
  readonly head_hash: string | null;
  readonly head_created_at: Date | null;
  readonly sealed_at: Date | null;
  readonly last_seq: string | null;
  readonly checkpoint_seq: string | null;
  readonly checkpoint_hash: string | null;
  readonly unsealed: string;
  readonly oldest: Date | null;
}

/** Everything about the ends of a chain, as of one instant. */
export async function readChainState(db: Queryable, { accountId }: { accountId: string }): Promise<ChainState> {
  const { rows } = await db.query<StateRow>(
    `select h.seq as head_seq, h.hash as head_hash, h.created_at as head_created_at, h.sealed_at,
            (select max(seq) from audit_logs where account_id = $1) as last_seq,
            c.seq as checkpoint_seq, c.hash as checkpoint_hash, w.unsealed, w.oldest
     from (select count(*) as unsealed, min(created_at) as oldest from audit_inbox where account_id = $1) w
     left join audit_heads h on h.account_id = $1
     left join audit_checkpoints c on c.account_id = $1`,
    [accountId],
  );
  const row = rows[0]!;
  const checkpoint =
    row.checkpoint_seq === null ? null : { seq: Number(row.checkpoint_seq), hash: row.checkpoint_hash! };
  const isBegun = row.head_seq !== null && row.head_seq !== '0';
  return {
    head: isBegun
      ? {
          seq: Number(row.head_seq),
          hash: row.head_hash!,
          created_at: row.head_created_at,
          sealed_at: row.sealed_at,
        }
      : { ...chainStart, created_at: null, sealed_at: null },
    lastSeq: Number(row.last_seq ?? checkpoint?.seq ?? 0),
    checkpoint,
    unsealed: { count: Number(row.unsealed), oldest_created_at: row.oldest },
  };
}
