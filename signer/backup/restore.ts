import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { CryptoKey } from 'jose';
import type { KeyEncryption } from '../kek.ts';
import type { Party } from '../parties.ts';
import { STORE_FILE } from '../store/database.ts';
import { migrations } from '../store/migrations.ts';
import { createShareSealing, type ShareSealing } from '../store/sealing.ts';
import type { Frame, Row } from './frame.ts';
import { BackupError, readBackup } from './read.ts';

/** What came back. */
export interface Restored {
  party: Party;
  dataDir: string;
  /** Keys in use. None signs here before the records of the others have been merged. */
  keys: number;
  shares: number;
  /** Of the backup; what happened after it is not in the store. */
  writtenAt: string;
  /** Bytes at the end of the file that are no whole frame. */
  bytesIgnored: number;
}

/**
 * Makes a signer's store from its backup, in a directory that has none. The shares are sealed under the current
 * key-encryption key; every key is marked as without records. As a whole or not at all.
 * @param p.verificationKey of the signer: a backup that somebody else wrote is refused
 * @throws BackupError of one sentence
 */
export async function restoreBackup(p: {
  file: string;
  identities: readonly string[];
  verificationKey: CryptoKey;
  party: Party;
  dataDir: string;
  keyEncryption: KeyEncryption;
}): Promise<Restored> {
  const store = join(p.dataDir, STORE_FILE);
  if (existsSync(store)) {
    throw new BackupError(`${store} exists already and is left as it is; restore into an empty directory`);
  }
  mkdirSync(p.dataDir, { recursive: true, mode: 0o700 });
  const draft = join(p.dataDir, `${STORE_FILE}.restoring`);
  removeDraft(draft);
  const db = new DatabaseSync(draft, { enableForeignKeyConstraints: false });
  try {
    db.exec('pragma journal_mode = delete; pragma synchronous = full; begin immediate');
    const load = createLoader({ ...p, db, sealing: createShareSealing(p) });
    const { writtenAtMs, bytesIgnored } = await readBackup({ ...p, onFrame: (frame) => load(frame) });
    const counts = finish(db);
    db.exec('commit');
    db.close();
    await syncFile(draft);
    renameSync(draft, store);
    await syncFile(p.dataDir);
    const { party, dataDir } = p;
    return { party, dataDir, ...counts, writtenAt: new Date(writtenAtMs).toISOString(), bytesIgnored };
  } catch (error) {
    if (db.isOpen) db.close();
    removeDraft(draft);
    throw error;
  }
}

function removeDraft(draft: string): void {
  for (const file of [draft, `${draft}-journal`]) rmSync(file, { force: true });
}

async function syncFile(path: string): Promise<void> {
  const handle = await open(path);
  await handle.sync().finally(() => handle.close());
}

/** Brings one frame after the other into the new store. */
function createLoader(p: { db: DatabaseSync; file: string; party: Party; sealing: ShareSealing }) {
  const { db } = p;
  const columns = new Map<string, ReadonlySet<string>>();

  function begin(schema: number): void {
    if (schema > migrations.length) {
      throw new BackupError(
        `backup ${p.file} is of a store of version ${schema}, this program knows versions up to ${migrations.length}`,
      );
    }
    // As it was then; the signer brings it up to date as it would any store of that version.
    for (const statements of migrations.slice(0, schema)) db.exec(statements);
    db.exec(`pragma user_version = ${schema}`);
    const all = db
      .prepare(
        `select t.name as "table", c.name from sqlite_schema t, pragma_table_info(t.name) c where t.type = 'table'`,
      )
      .all() as { table: string; name: string }[];
    for (const { table, name } of all) columns.set(table, new Set([...(columns.get(table) ?? []), name]));
  }

  function put(table: string, row: Row): void {
    const names = Object.keys(row);
    const isKnown = names.length > 0 && names.every((name) => columns.get(table)?.has(name));
    if (!isKnown) throw new BackupError(`backup ${p.file} has rows of ${table} that its version of a store has not`);
    const values = names.map((name) => `:${name}`);
    db.prepare(`insert or replace into ${table} (${names.join(', ')}) values (${values.join(', ')})`).run(row);
  }

  return (frame: Frame): void => {
    if (frame.party !== p.party) {
      throw new BackupError(`backup ${p.file} is of signer ${frame.party}, not of signer ${p.party}`);
    }
    if (frame.kind === 'begin') begin(frame.schema);
    if (frame.kind === 'rows') for (const row of frame.rows) put(frame.table, row);
    if (frame.kind !== 'key') return;
    put('keys', frame.key);
    db.prepare('delete from shares where key_id = ?').run(frame.keyId);
    for (const { share, ...row } of frame.shares) {
      const at = { keyId: frame.keyId, epoch: row.epoch as number, engineVersion: row.engine_version as string };
      const { sealed, kekId } = p.sealing.seal(share as Uint8Array, at);
      (share as Uint8Array).fill(0);
      put('shares', { ...row, sealed_share: sealed, ...(columns.get('shares')!.has('kek_id') && { kek_id: kekId }) });
    }
  };
}

/** What every restored store says of itself, in the newest version. */
function finish(db: DatabaseSync): { keys: number; shares: number } {
  const { user_version: found } = db.prepare('pragma user_version').get() as { user_version: number };
  for (const statements of migrations.slice(found)) db.exec(statements);
  db.exec(`pragma user_version = ${migrations.length}`);
  db.exec('update keys set has_records = 0');
  return db
    .prepare(
      `select (select count(*) from keys where state = 'active') as keys, (select count(*) from shares) as shares`,
    )
    .get() as { keys: number; shares: number };
}
