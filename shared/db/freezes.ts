import type { FreezeScope, FreezeState } from '../domain/freeze.ts';
import { newId } from '../ids.ts';
import { isBusy } from './partitions.ts';
import type { Queryable } from './pool.ts';

export interface FreezeRow {
  readonly id: string;
  readonly scope: FreezeScope;
  readonly account_id: string | null;
  readonly agent_id: string | null;
  readonly reason: string;
  /** `operator`, `system`, or the actor's id. */
  readonly frozen_by: string;
  readonly created_at: Date;
}

/** Whether it is of whoever runs the installation, or of the service itself: then nobody else lifts it. */
export function isOperators({ frozen_by }: Pick<FreezeRow, 'frozen_by'>): boolean {
  return frozen_by === 'operator' || frozen_by === 'system';
}

/**
 * Whose word stands where several freeze the same: the operator's, then that of the service itself, which lifts its own once
 * what it froze for is over, then anybody's of the account.
 */
const rankOf = (by: string): number => (by === 'operator' ? 2 : by === 'system' ? 1 : 0);

/** A freeze as read with what is frozen: JSON of the database, or a row. */
export type ShownFreeze = Pick<FreezeRow, 'scope' | 'reason' | 'frozen_by'> & { readonly created_at: Date | string };

/** What is frozen, or is to be. */
export type FreezeSubject =
  | { readonly scope: 'installation' }
  | { readonly scope: 'account'; readonly accountId: string }
  | { readonly scope: 'agent'; readonly accountId: string; readonly agentId: string };

/** Taken shared by whoever allows something to be signed, and alone by whoever changes what is frozen. */
const lockKey = `hashtext('freeze')`;

/** A process that stands still in the middle must not keep a freeze from coming: it has to be there within a second. */
const longestWaitMs = 500;

const valuesOf = (subject: FreezeSubject) => [
  subject.scope,
  subject.scope === 'installation' ? null : subject.accountId,
  subject.scope === 'agent' ? subject.agentId : null,
];
const isSubject = 'scope = $1 and account_id is not distinct from $2 and agent_id is not distinct from $3';

/**
 * Freezes, in the caller's database transaction: whoever allows a signature afterwards sees it, and whoever has begun to
 * is waited for. Take it before any other lock but an agent's, which payments take before they ask (`blockingFreeze`):
 * whoever took that one afterwards and a payment would wait for each other.
 * @returns the row as it is now, and whether this call made it, or gave it to somebody whose word weighs more
 */
export async function freeze(
  db: Queryable,
  { reason, by, ...subject }: FreezeSubject & { reason: string; by: string },
): Promise<{ row: FreezeRow; isNew: boolean }> {
  await lockFreezes(db);
  const { rows } = await db.query<FreezeRow>(
    `insert into freezes (id, scope, account_id, agent_id, reason, frozen_by) values ($4, $1, $2, $3, $5, $6)
     on conflict do nothing returning *`,
    [...valuesOf(subject), newId('frz'), reason, by],
  );
  if (rows[0]) await nextVersion(db);
  if (rows[0]) return { row: rows[0], isNew: true };
  const before = (await findFreeze(db, subject))!;
  if (rankOf(by) <= rankOf(before.frozen_by)) return { row: before, isNew: false };
  // From now on it is theirs: nobody of the account can lift it, and of the operator's not the service itself either.
  const taken = await db.query<FreezeRow>('update freezes set frozen_by = $2, reason = $3 where id = $1 returning *', [
    ...[before.id, by, reason],
  ]);
  return { row: taken.rows[0]!, isNew: true };
}

/**
 * Lifts a freeze.
 * @param p.onlyOf whose it has to be; absent: anybody's
 * @returns what was lifted; nothing where there was none
 */
export async function unfreeze(
  db: Queryable,
  { onlyOf, ...subject }: FreezeSubject & { onlyOf?: 'system' | undefined },
): Promise<FreezeRow | undefined> {
  await lockFreezes(db);
  const { rows } = await db.query<FreezeRow>(
    `delete from freezes where ${isSubject} and frozen_by = coalesce($4, frozen_by) returning *`,
    [...valuesOf(subject), onlyOf ?? null],
  );
  if (rows[0]) await nextVersion(db);
  return rows[0];
}

export async function findFreeze(db: Queryable, subject: FreezeSubject): Promise<FreezeRow | undefined> {
  const { rows } = await db.query<FreezeRow>(`select * from freezes where ${isSubject}`, valuesOf(subject));
  return rows[0];
}

/**
 * Whether something of an agent may be signed, for the rest of the caller's database transaction: a freeze that comes
 * meanwhile waits for it, but no longer than half a second.
 * @returns the widest freeze that forbids it; undefined where none does
 */
export async function blockingFreeze(
  db: Queryable,
  agent: { accountId: string; agentId: string },
): Promise<FreezeRow | undefined> {
  // A statement of its own: what was committed while it waited is seen by the next one only.
  await db.query(`select pg_advisory_xact_lock_shared(${lockKey})`);
  return currentFreeze(db, agent);
}

/** The widest freeze of an agent, as of now. */
export async function currentFreeze(
  db: Queryable,
  { accountId, agentId }: { accountId: string; agentId?: string },
): Promise<FreezeRow | undefined> {
  const { rows } = await db.query<FreezeRow>(
    `select * from freezes
     where scope = 'installation' or (scope = 'account' and account_id = $1) or (scope = 'agent' and agent_id = $2)
     order by array_position(array['installation', 'account', 'agent'], scope) limit 1`,
    [accountId, agentId ?? null],
  );
  return rows[0];
}

/** What is frozen, newest first, and of how many things. */
export async function listFreezes(
  db: Queryable,
  { limit }: { limit: number },
): Promise<{ freezes: FreezeRow[]; total: number }> {
  const { rows } = await db.query<FreezeRow & { total: number }>(
    'select *, (count(*) over ())::int as total from freezes order by created_at desc, id desc limit $1',
    [limit],
  );
  return { freezes: rows.map(({ total: _, ...row }) => row), total: rows[0]?.total ?? 0 };
}

/** Whose an agent is, deleted or not; for an operator, who names the agent alone. */
export async function findAccountOfAgent(db: Queryable, { id }: { id: string }): Promise<string | undefined> {
  const { rows } = await db.query<{ account_id: string }>('select account_id from agents where id = $1', [id]);
  return rows[0]?.account_id;
}

/** Everything that is frozen, with the version that signers are to know. */
export async function readFreezes(db: Queryable): Promise<FreezeState & { readonly told: number }> {
  const { rows } = await db.query<{ version: string; told: string; frozen: FreezeRow[] | null }>(
    `select o.version, o.told, (select json_agg(f order by f.id) from freezes f) as frozen from freeze_orders o`,
  );
  const { version, told, frozen } = rows[0]!;
  const all = frozen ?? [];
  return {
    version: Number(version),
    told: Number(told),
    installation: all.some(({ scope }) => scope === 'installation'),
    accounts: all.filter(({ scope }) => scope === 'account').map((row) => row.account_id!),
    agents: all.filter(({ scope }) => scope === 'agent').map((row) => row.agent_id!),
  };
}

/** Notes that a payment waits because it is frozen, so that it is told when it is not any more. */
export async function noteFrozenPayment(
  db: Queryable,
  { id, accountId, agentId }: { id: string; accountId: string; agentId: string },
): Promise<void> {
  await db.query(
    'insert into frozen_payments (payment_id, account_id, agent_id) values ($1, $2, $3) on conflict do nothing',
    [id, accountId, agentId],
  );
}

/** A payment that has ended waits for nothing. */
export async function forgetFrozenPayment(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query('delete from frozen_payments where payment_id = $1', [id]);
}

/** Takes payments that waited because they were frozen and are not any more, longest waiting first. @returns their ids */
export async function takeThawed(db: Queryable, { limit }: { limit: number }): Promise<string[]> {
  const { rows } = await db.query<{ payment_id: string }>(
    `delete from frozen_payments where payment_id in (
       select p.payment_id from frozen_payments p
       where not exists (
         select from freezes f where f.scope = 'installation' or (f.scope = 'account' and f.account_id = p.account_id)
           or (f.scope = 'agent' and f.agent_id = p.agent_id))
       order by p.created_at, p.payment_id limit $1 for update skip locked)
     returning payment_id`,
    [limit],
  );
  return rows.map((row) => row.payment_id);
}

/** Notes that a signer has nothing newer than a version, whatever it confirmed: it has lost it since. */
export async function markForgotten(db: Queryable, version: number): Promise<void> {
  await db.query('update freeze_orders set told = $1 where told > $1', [version]);
}

/** Notes that all signers have confirmed a version. */
export async function markTold(db: Queryable, version: number): Promise<void> {
  await db.query('update freeze_orders set told = $1 where told < $1 and version >= $1', [version]);
}

/** Waits for those who are allowing something, but not for one of them that hangs: the signers are told all the same. */
async function lockFreezes(db: Queryable): Promise<void> {
  await db.query(`savepoint before_lock; set local lock_timeout = ${longestWaitMs}`);
  try {
    await db.query(`select pg_advisory_xact_lock(${lockKey})`);
  } catch (error) {
    if (!isBusy(error)) throw error;
    await db.query('rollback to savepoint before_lock');
  }
  await db.query('set local lock_timeout to default');
}

/** Grows also across a restore of the database: it is never below the time. */
async function nextVersion(db: Queryable): Promise<void> {
  await db.query(
    'update freeze_orders set version = greatest(version + 1, (extract(epoch from clock_timestamp()) * 1000)::bigint)',
  );
}
