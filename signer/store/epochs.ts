import type { DatabaseSync } from 'node:sqlite';
import { Refusal } from '../refusal.ts';
import { transaction } from './database.ts';
import type { ShareSealing } from './sealing.ts';

/** One epoch of a key at this signer, without its share. */
export interface Epoch {
  epoch: number;
  /** `stored`: not known yet to be stored by all, and not used. */
  state: 'stored' | 'active';
  /** Made by a key generation or a complete refresh: nothing of it is known to the epochs before. */
  complete: boolean;
  /** The run that made it. */
  sessionId: string;
  /** When that run began. */
  createdAtMs: number;
}

/** What is public about one stored share. */
export interface EpochFacts extends Epoch {
  publicKey: Uint8Array;
  chainCode: Uint8Array;
}

/** A share that a refresh or a repair made. */
export interface NewEpoch {
  keyId: string;
  epoch: number;
  complete: boolean;
  sessionId: string;
  /** When the run began. */
  atMs: number;
  /** Secret: clear it after use. */
  share: Uint8Array;
  publicKey: Uint8Array;
  chainCode: Uint8Array;
  /** Given where the share of this signer was lost: the key is taken up again, without records. */
  repaired?: { ownerKey: string | null } | undefined;
}

export interface EpochStore {
  /** All epochs of a key, oldest first. */
  epochsOf(keyId: string): Epoch[];
  /** Epochs that signatures may use, newest first. */
  activeEpochs(keyId: string): number[];
  /** One epoch of a key, without opening its share; by default the newest. */
  epochFacts(keyId: string, epoch?: number): EpochFacts | undefined;
  /** Seals and stores a share as `stored`, and drops what earlier runs left in that state; durable on return. */
  putEpoch(p: NewEpoch): void;
  /** `stored` → `active`, where the share is still the one of that run. @returns false where it is not */
  activateEpoch(p: { keyId: string; epoch: number; sessionId: string }): boolean;
  /** Erases all shares of lower epochs, also from the write-ahead log. */
  eraseEpochsBelow(p: { keyId: string; epoch: number }): void;
}

type Row<E extends Epoch> = Omit<E, 'complete'> & { complete: number };
const fromRow = <E extends Epoch>(row: Row<E>): E => ({ ...row, complete: row.complete === 1 }) as E;

export function createEpochStore(p: {
  db: DatabaseSync;
  engineVersion: string;
  sealing: ShareSealing;
  now: () => Date;
}): EpochStore {
  const { db, engineVersion } = p;
  const select = db.prepare(
    `select epoch, state, complete, session_id as "sessionId", created_at_ms as "createdAtMs" from shares
     where key_id = ? order by epoch`,
  );
  const selectFacts = db.prepare(
    `select epoch, state, complete, session_id as "sessionId", created_at_ms as "createdAtMs",
       public_key as "publicKey", chain_code as "chainCode"
     from shares where key_id = :keyId and (epoch = :epoch or :epoch is null) order by epoch desc limit 1`,
  );
  const selectActive = db.prepare(`select epoch from shares where key_id = ? and state = 'active' order by epoch desc`);
  const takeUp = db.prepare(
    `insert into keys (key_id, session_id, state, created_at_ms, owner_key, has_records)
     values (:keyId, :sessionId, 'active', :atMs, :ownerKey, 0)
     on conflict (key_id) do update
       set state = 'active', has_records = 0, owner_key = coalesce(excluded.owner_key, owner_key)
       where state = 'active' or (state = 'abandoned' and was_stored = 0)`,
  );
  const drop = db.prepare(`delete from shares where key_id = ? and state = 'stored'`);
  const insert = db.prepare(
    `insert into shares (key_id, epoch, engine_version, public_key, chain_code, sealed_share, created_at_ms, session_id,
       state, complete, kek_id)
     values (:keyId, :epoch, :engineVersion, :publicKey, :chainCode, :sealed, :atMs, :sessionId, 'stored', :complete, :kekId)`,
  );
  const activate = db.prepare(
    `update shares set state = 'active' where key_id = :keyId and epoch = :epoch and session_id = :sessionId`,
  );
  const erase = db.prepare('delete from shares where key_id = :keyId and epoch < :epoch');

  return {
    epochsOf: (keyId) => (select.all(keyId) as unknown as Row<Epoch>[]).map(fromRow),
    activeEpochs: (keyId) => (selectActive.all(keyId) as { epoch: number }[]).map(({ epoch }) => epoch),
    epochFacts(keyId, epoch) {
      const row = selectFacts.get({ keyId, epoch: epoch ?? null }) as Row<EpochFacts> | undefined;
      return row && fromRow(row);
    },
    putEpoch({ keyId, epoch, complete, sessionId, atMs, share, publicKey, chainCode, repaired }) {
      const { sealed, kekId } = p.sealing.seal(share, { keyId, epoch, engineVersion });
      transaction(db, () => {
        if (repaired && takeUp.run({ keyId, sessionId, atMs, ownerKey: repaired.ownerKey }).changes === 0) {
          throw new Refusal('key_exists', `key ${keyId} is being made here, or was given up; it is not taken up again`);
        }
        drop.run(keyId);
        const row = { keyId, epoch, engineVersion, publicKey, chainCode, sealed, kekId, atMs, sessionId };
        insert.run({ ...row, complete: complete ? 1 : 0 });
      });
    },
    activateEpoch: ({ keyId, epoch, sessionId }) => activate.run({ keyId, epoch, sessionId }).changes === 1,
    eraseEpochsBelow({ keyId, epoch }) {
      erase.run({ keyId, epoch });
      // Also when nothing was left to erase: a crash may have come between the two.
      db.exec('pragma wal_checkpoint(truncate)');
    },
  };
}
