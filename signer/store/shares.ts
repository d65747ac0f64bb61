import type { DatabaseSync } from 'node:sqlite';
import { Refusal } from '../refusal.ts';
import { transaction } from './database.ts';
import type { Epoch, EpochStore } from './epochs.ts';
import type { ShareSealing } from './sealing.ts';

/** First epoch of every key; a refresh counts on. */
export const FIRST_EPOCH = 1;

export type KeyState = 'generating' | 'stored' | 'active' | 'abandoned';

export interface StoredShare {
  epoch: number;
  /** Secret: clear it after use. */
  share: Uint8Array;
  publicKey: Uint8Array;
  chainCode: Uint8Array;
}

export interface KeyFacts {
  keyId: string;
  /** Of the account's owner, who sets the limits of the key's wallets; null: nobody can. */
  ownerKey: string | null;
  /** False: nothing is signed with it here before the records of the others have been merged. */
  hasRecords: boolean;
  /** Oldest first. */
  epochs: Epoch[];
}

/** By which addresses of a key's wallets are derived. */
export interface PublicHalves {
  /** Uncompressed, 65 bytes. */
  publicKey: Uint8Array;
  /** 32 bytes. */
  chainCode: Uint8Array;
  ownerKey: string | null;
}

export interface ShareStore {
  /** Takes a key id, for ever. @throws Refusal `key_exists` */
  reserveKey(p: { keyId: string; sessionId: string; ownerKey?: string | null }): void;
  stateOf(keyId: string): KeyState | undefined;
  /** True where a key may be had from the other signers: in use, unknown, or given up before its share was stored. */
  canTakeUp(keyId: string): boolean;
  /** Seals and stores the share of the first epoch; durable on return. */
  putShare(p: Omit<StoredShare, 'epoch'> & { keyId: string }): void;
  /** Opens the share of an epoch, or the newest that is in use. @throws Refusal `unknown_key`, `share_damaged` */
  getShare(keyId: string, epoch?: number): StoredShare;
  activateKey(keyId: string): void;
  /** Gives a key up that is not active yet, and erases its share. */
  abandonKey(p: { sessionId: string }): void;
  /** What anybody may know of a key that is in use; undefined when there is none. */
  publicHalves(keyId: string): PublicHalves | undefined;
  countKeys(): number;
  /** Every key that is in use, by id; or so many of those behind one. */
  listKeys(p?: { after?: string; limit?: number }): KeyFacts[];
}

interface ShareRow {
  epoch: number;
  engine_version: string;
  public_key: Uint8Array;
  chain_code: Uint8Array;
  sealed_share: Uint8Array;
  kek_id: string;
}

export function createShareStore(p: {
  db: DatabaseSync;
  party: number;
  engineVersion: string;
  sealing: ShareSealing;
  epochsOf: EpochStore['epochsOf'];
  now: () => Date;
}): ShareStore {
  const { db } = p;
  // What a crash left half-made has no counterpart at the other parties.
  db.exec(`update keys set state = 'abandoned' where state = 'generating'`);

  const insertKey = db.prepare(
    `insert into keys (key_id, session_id, state, created_at_ms, owner_key)
     values (:keyId, :sessionId, 'generating', :atMs, :ownerKey) on conflict do nothing`,
  );
  const selectState = db.prepare('select state from keys where key_id = ?');
  const selectClosed = db.prepare(
    `select 1 from keys where key_id = ? and not (state = 'active' or (state = 'abandoned' and was_stored = 0))`,
  );
  const markStored = db.prepare('update keys set was_stored = 1 where key_id = ?');
  const selectSession = db.prepare('select session_id from keys where key_id = ?');
  const updateState = db.prepare('update keys set state = :to where key_id = :keyId and state = :from');
  const insertShare = db.prepare(
    `insert into shares (key_id, epoch, engine_version, public_key, chain_code, sealed_share, created_at_ms, session_id, state, kek_id)
     values (:keyId, :epoch, :engineVersion, :publicKey, :chainCode, :sealed, :atMs, :sessionId, :state, :kekId)`,
  );
  const selectShare = db.prepare(
    `select * from shares where key_id = :keyId and (epoch = :epoch or (:epoch is null and state = 'active'))
     order by epoch desc limit 1`,
  );
  const abandon = db.prepare(`update keys set state = 'abandoned' where session_id = ? and state <> 'active'`);
  const eraseAbandoned = db.prepare(
    `delete from shares where key_id in (select key_id from keys where session_id = ? and state = 'abandoned')`,
  );
  const selectHalves = db.prepare(
    `select s.public_key as "publicKey", s.chain_code as "chainCode", k.owner_key as "ownerKey"
     from keys k join shares s using (key_id) where key_id = ? and k.state = 'active' order by s.epoch desc limit 1`,
  );
  const countActive = db.prepare(`select count(*) as n from keys where state = 'active'`);
  const selectKeys = db.prepare(
    `select key_id as "keyId", owner_key as "ownerKey", has_records as "hasRecords" from keys
     where state = 'active' and key_id > :after order by key_id limit :limit`,
  );

  const atMs = () => p.now().getTime();
  const moveTo = (keyId: string, from: KeyState, to: KeyState) => {
    if (updateState.run({ keyId, from, to }).changes !== 1) throw new Error(`key ${keyId} is not ${from}`);
  };

  return {
    reserveKey({ keyId, sessionId, ownerKey = null }) {
      if (insertKey.run({ keyId, sessionId, ownerKey, atMs: atMs() }).changes === 1) return;
      throw new Refusal('key_exists', `key id ${keyId} was used before; every attempt needs a fresh one`);
    },
    stateOf: (keyId) => (selectState.get(keyId) as { state: KeyState } | undefined)?.state,
    canTakeUp: (keyId) => selectClosed.get(keyId) === undefined,
    putShare({ keyId, share, publicKey, chainCode }) {
      const row = { keyId, epoch: FIRST_EPOCH, engineVersion: p.engineVersion };
      const { sealed, kekId } = p.sealing.seal(share, row);
      const { session_id: sessionId } = selectSession.get(keyId) as { session_id: string };
      transaction(db, () => {
        insertShare.run({ ...row, publicKey, chainCode, sealed, kekId, atMs: atMs(), sessionId, state: 'active' });
        moveTo(keyId, 'generating', 'stored');
        markStored.run(keyId);
      });
    },
    getShare(keyId, epoch) {
      const row = selectShare.get({ keyId, epoch: epoch ?? null }) as ShareRow | undefined;
      if (!row) throw new Refusal('unknown_key', `signer ${p.party} has no key ${keyId}`);
      const sealed = { sealed: row.sealed_share, kekId: row.kek_id };
      const share = p.sealing.open(sealed, { keyId, epoch: row.epoch, engineVersion: row.engine_version });
      return { epoch: row.epoch, share, publicKey: row.public_key, chainCode: row.chain_code };
    },
    activateKey: (keyId) => moveTo(keyId, 'stored', 'active'),
    abandonKey({ sessionId }) {
      transaction(db, () => {
        abandon.run(sessionId);
        eraseAbandoned.run(sessionId);
      });
    },
    publicHalves: (keyId) => selectHalves.get(keyId) as PublicHalves | undefined,
    countKeys: () => (countActive.get() as { n: number }).n,
    listKeys: ({ after = '', limit = -1 } = {}) =>
      (
        selectKeys.all({ after, limit }) as unknown as { keyId: string; ownerKey: string | null; hasRecords: number }[]
      ).map((key) => ({
        ...key,
        hasRecords: key.hasRecords === 1,
        epochs: p.epochsOf(key.keyId),
      })),
  };
}
