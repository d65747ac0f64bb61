import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { migrations } from './migrations.ts';

export const STORE_FILE = 'signer.sqlite';

/**
 * Opens `signer.sqlite` in `dataDir`, exclusively: one process a party. A store of an earlier version is brought up to
 * date, one of a later version is refused.
 * @throws Error with one sentence when the directory cannot be used or another process has it
 */
export function openDatabase(dataDir: string): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    db = new DatabaseSync(join(dataDir, STORE_FILE));
    db.exec('pragma locking_mode = exclusive; pragma journal_mode = wal; pragma synchronous = full;');
    db.exec('pragma foreign_keys = on; pragma secure_delete = on;');
    bringUpToDate(db);
    return db;
  } catch (cause) {
    db?.close();
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`the signer's store in ${dataDir} cannot be opened (${why}); is another signer process using it?`, {
      cause,
    });
  }
}

function bringUpToDate(db: DatabaseSync): void {
  const { user_version: found } = db.prepare('pragma user_version').get() as { user_version: number };
  if (found > migrations.length) {
    throw new Error(`it is of version ${found}, this program knows versions up to ${migrations.length}`);
  }
  for (const [index, statements] of migrations.entries()) {
    if (index < found) continue;
    transaction(db, () => {
      db.exec(statements);
      db.exec(`pragma user_version = ${index + 1}`);
    });
  }
}

/** Runs statements as one: durable on return, or undone when `run` throws. */
export function transaction<T>(db: DatabaseSync, run: () => T): T {
  db.exec('begin immediate');
  try {
    const result = run();
    db.exec('commit');
    return result;
  } catch (error) {
    db.exec('rollback');
    throw error;
  }
}
