import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { KeyEncryption } from './kek.ts';
import { Refusal } from './refusal.ts';

/** First epoch of every key; a refresh counts on. */
const FIRST_EPOCH = 1;

/**
 * One signer's memory. A share is one row for each key and epoch. The signing log can only be added to: the database
 * itself refuses updates and deletes.
 */
const schema = `
  create table if not exists keys (
    key_id text primary key,
    session_id text not null unique,
    state text not null check (state in ('generating', 'stored', 'active', 'abandoned')),
    created_at_ms integer not null
  ) strict;
  create table if not exists shares (
    key_id text not null references keys (key_id),
    epoch integer not null,
    engine_version text not null,
    public_key blob not null check (length(public_key) = 65),
    chain_code blob not null check (length(chain_code) = 32),
    sealed_share blob not null,
    created_at_ms integer not null,
    primary key (key_id, epoch)
  ) strict;
  create table if not exists bans (
    key_id text not null,
    party integer not null,
    reason text not null,
    created_at_ms integer not null,
    primary key (key_id, party)
  ) strict;
  create table if not exists signing_log (
    seq integer primary key autoincrement,
    at_ms integer not null,
    session_id text not null,
    counterparty integer not null,
    key_id text not null,
    epoch integer not null,
    path text not null,
    address text not null,
    transaction_id text not null,
    decision_id text not null,
    receipt text not null,
    payload text not null,
    digest blob not null,
    signature blob
  ) strict;
  create trigger if not exists signing_log_no_update before update on signing_log
    begin select raise(abort, 'the signing log is append-only'); end;
  create trigger if not exists signing_log_no_delete before delete on signing_log
    begin select raise(abort, 'the signing log is append-only'); end;
`;

type KeyState = 'generating' | 'stored' | 'active' | 'abandoned';

export interface StoredShare {
  epoch: number;
  /** Secret: clear it after use. */
  share: Uint8Array;
  publicKey: Uint8Array;
  chainCode: Uint8Array;
}

/** What this party signed. `signature` is null where this party released its part but does not see the result. */
export interface SigningLogEntry {
  sessionId: string;
  counterparty: number;
  keyId: string;
  epoch: number;
  path: string;
  address: string;
  transactionId: string;
  decisionId: string;
  receipt: string;
  /** The whole thing that was signed, as JSON. */
  payload: string;
  digest: Uint8Array;
  signature: Uint8Array | null;
}

export interface SignerStore {
  /** Takes a key id, for ever. @throws Refusal `key_exists` */
  reserveKey(p: { keyId: string; sessionId: string }): void;
  stateOf(keyId: string): KeyState | undefined;
  /** Seals and stores the share of the first epoch; durable on return. */
  putShare(p: Omit<StoredShare, 'epoch'> & { keyId: string }): void;
  /** Opens the newest share. @throws Refusal `unknown_key`, `share_damaged` */
  getShare(keyId: string): StoredShare;
  activateKey(keyId: string): void;
  /** Gives a key up that is not active yet, and erases its share. */
  abandonKey(p: { sessionId: string }): void;
  countKeys(): number;
  ban(p: { keyId: string; party: number; reason: string }): void;
  isBanned(p: { keyId: string; party: number }): boolean;
  /** Durable on return (WAL, synchronous = FULL). */
  appendSigningLog(entry: SigningLogEntry): void;
  close(): void;
}

interface ShareRow {
  epoch: number;
  engine_version: string;
  public_key: Uint8Array;
  chain_code: Uint8Array;
  sealed_share: Uint8Array;
}

/**
 * Opens `signer.sqlite` in `dataDir`, exclusively: one process a party.
 * @throws Error with one sentence when the directory cannot be used or another process has it
 */
export function openSignerStore(p: {
  dataDir: string;
  party: number;
  engineVersion: string;
  keyEncryption: KeyEncryption;
  now: () => Date;
}): SignerStore {
  const db = openDatabase(p.dataDir);
  // What a crash left half-made has no counterpart at the other parties.
  db.exec(`update keys set state = 'abandoned' where state = 'generating'`);

  const insertKey = db.prepare(
    `insert into keys values (:keyId, :sessionId, 'generating', :atMs) on conflict do nothing`,
  );
  const selectState = db.prepare('select state from keys where key_id = ?');
  const updateState = db.prepare('update keys set state = :to where key_id = :keyId and state = :from');
  const insertShare = db.prepare(
    'insert into shares values (:keyId, :epoch, :engineVersion, :publicKey, :chainCode, :sealed, :atMs)',
  );
  const selectShare = db.prepare('select * from shares where key_id = ? order by epoch desc limit 1');
  const abandon = db.prepare(`update keys set state = 'abandoned' where session_id = ? and state <> 'active'`);
  const eraseAbandoned = db.prepare(
    `delete from shares where key_id in (select key_id from keys where session_id = ? and state = 'abandoned')`,
  );
  const countActive = db.prepare(`select count(*) as n from keys where state = 'active'`);
  const insertBan = db.prepare('insert into bans values (:keyId, :party, :reason, :atMs) on conflict do nothing');
  const selectBan = db.prepare('select 1 from bans where key_id = :keyId and party = :party');
  const insertLog = db.prepare(`insert into signing_log values (null, :atMs, :sessionId, :counterparty, :keyId, :epoch,
    :path, :address, :transactionId, :decisionId, :receipt, :payload, :digest, :signature)`);

  const atMs = () => p.now().getTime();
  const contextOf = (row: { keyId: string; epoch: number; engineVersion: string }) =>
    Buffer.from(JSON.stringify(['purser-share', row.keyId, p.party, row.epoch, row.engineVersion]));
  const moveTo = (keyId: string, from: KeyState, to: KeyState) => {
    if (updateState.run({ keyId, from, to }).changes !== 1) throw new Error(`key ${keyId} is not ${from}`);
  };

  return {
    reserveKey({ keyId, sessionId }) {
      if (insertKey.run({ keyId, sessionId, atMs: atMs() }).changes === 1) return;
      throw new Refusal('key_exists', `key id ${keyId} was used before; every attempt needs a fresh one`);
    },
    stateOf: (keyId) => (selectState.get(keyId) as { state: KeyState } | undefined)?.state,
    putShare({ keyId, share, publicKey, chainCode }) {
      const row = { keyId, epoch: FIRST_EPOCH, engineVersion: p.engineVersion };
      const sealed = p.keyEncryption.seal(share, contextOf(row));
      transaction(db, () => {
        insertShare.run({ ...row, publicKey, chainCode, sealed, atMs: atMs() });
        moveTo(keyId, 'generating', 'stored');
      });
    },
    getShare(keyId) {
      const row = selectShare.get(keyId) as ShareRow | undefined;
      if (!row) throw new Refusal('unknown_key', `signer ${p.party} has no key ${keyId}`);
      try {
        const context = contextOf({ keyId, epoch: row.epoch, engineVersion: row.engine_version });
        const share = p.keyEncryption.open(row.sealed_share, context);
        return { epoch: row.epoch, share, publicKey: row.public_key, chainCode: row.chain_code };
      } catch (cause) {
        throw new Refusal(
          'share_damaged',
          `signer ${p.party}: the stored share of key ${keyId}, epoch ${row.epoch}, does not open: damaged, or sealed under another key-encryption key`,
          { cause },
        );
      }
    },
    activateKey: (keyId) => moveTo(keyId, 'stored', 'active'),
    abandonKey({ sessionId }) {
      transaction(db, () => {
        abandon.run(sessionId);
        eraseAbandoned.run(sessionId);
      });
    },
    countKeys: () => (countActive.get() as { n: number }).n,
    ban: (ban) => void insertBan.run({ ...ban, atMs: atMs() }),
    isBanned: ({ keyId, party }) => selectBan.get({ keyId, party }) !== undefined,
    appendSigningLog: (entry) => void insertLog.run({ ...entry, atMs: atMs() }),
    close: () => db.close(),
  };
}

function openDatabase(dataDir: string): DatabaseSync {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const db = new DatabaseSync(join(dataDir, 'signer.sqlite'));
    db.exec('pragma locking_mode = exclusive; pragma journal_mode = wal; pragma synchronous = full;');
    db.exec('pragma foreign_keys = on; pragma secure_delete = on;');
    db.exec(schema);
    return db;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`the signer's store in ${dataDir} cannot be opened (${why}); is another signer process using it?`, {
      cause,
    });
  }
}

function transaction(db: DatabaseSync, run: () => void): void {
  db.exec('begin immediate');
  try {
    run();
    db.exec('commit');
  } catch (error) {
    db.exec('rollback');
    throw error;
  }
}
