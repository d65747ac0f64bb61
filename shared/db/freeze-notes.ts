import type { Acting } from './audit.ts';
import type { FreezeRow } from './freezes.ts';
import type { Queryable } from './pool.ts';

/** That the installation was frozen, or is not any more, as far as accounts have yet to be told. */
export interface FreezeNoteRow {
  readonly id: string;
  readonly change: 'frozen' | 'unfrozen';
  /** JSON, so times are strings. */
  readonly subject: Omit<FreezeRow, 'created_at'> & { readonly created_at: string };
  readonly acting: Acting;
  readonly told_to: string;
}

export async function insertFreezeNote(
  db: Queryable,
  { change, freeze, acting }: { change: FreezeNoteRow['change']; freeze: FreezeRow; acting: Acting },
): Promise<void> {
  await db.query('insert into freeze_notes (change, subject, acting) values ($1, $2, $3)', [
    ...[change, JSON.stringify(freeze), JSON.stringify(acting)],
  ]);
}

/** The oldest that nobody is working on, locked until the database transaction ends. */
export async function lockFreezeNote(db: Queryable): Promise<FreezeNoteRow | undefined> {
  const { rows } = await db.query<FreezeNoteRow>(
    'select * from freeze_notes order by id limit 1 for update skip locked',
  );
  return rows[0];
}

/** The accounts that come next, in the order of their ids. */
export async function accountsAfter(
  db: Queryable,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>('select id from accounts where id > $1 order by id limit $2', [
    after,
    limit,
  ]);
  return rows.map(({ id }) => id);
}

export async function noteToldTo(db: Queryable, { id, accountId }: { id: string; accountId: string }): Promise<void> {
  await db.query('update freeze_notes set told_to = $2 where id = $1', [id, accountId]);
}

export async function deleteFreezeNote(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query('delete from freeze_notes where id = $1', [id]);
}
