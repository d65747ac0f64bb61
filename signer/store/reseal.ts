import type { DatabaseSync } from 'node:sqlite';
import { Refusal } from '../refusal.ts';
import { transaction } from './database.ts';
import type { ShareSealing } from './sealing.ts';

/** Where a pass over all shares has got to. */
export interface ResealPosition {
  keyId: string;
  epoch: number;
}

export interface ResealStore {
  /** How many shares are sealed under each key-encryption key; under '' those from before it was noted. */
  sharesByKek(): ReadonlyMap<string, number>;
  /**
   * Seals a few shares under the current key that are under another, as one change.
   * @param p.after where the last step got to; undefined begins
   * @returns where this step got to, undefined when no more are left; and what did not open
   */
  resealSome(p: { kekId: string; after: ResealPosition | undefined; max: number }): {
    position: ResealPosition | undefined;
    damaged: string[];
  };
  /** Lets nothing that was overwritten stay behind in the write-ahead log. */
  truncateLog(): void;
}

interface SealedRow extends ResealPosition {
  engineVersion: string;
  sealed: Uint8Array;
  kekId: string;
}

export function createResealStore({ db, sealing }: { db: DatabaseSync; sealing: ShareSealing }): ResealStore {
  const count = db.prepare('select kek_id as id, count(*) as n from shares group by kek_id');
  const select = db.prepare(
    `select key_id as "keyId", epoch, engine_version as "engineVersion", sealed_share as sealed, kek_id as "kekId"
     from shares where kek_id <> :kekId and (key_id, epoch) > (:keyId, :epoch) order by key_id, epoch limit :max`,
  );
  const update = db.prepare(
    'update shares set sealed_share = :sealed, kek_id = :kekId where key_id = :keyId and epoch = :epoch',
  );

  /** @returns why a share did not open */
  function reseal(row: SealedRow): string | undefined {
    let share: Uint8Array;
    try {
      share = sealing.open(row, row);
    } catch (error) {
      if (error instanceof Refusal) return error.message;
      throw error;
    }
    update.run({ ...sealing.seal(share, row), keyId: row.keyId, epoch: row.epoch });
    share.fill(0);
    return undefined;
  }

  return {
    sharesByKek: () => new Map((count.all() as { id: string; n: number }[]).map(({ id, n }) => [id, n])),
    resealSome({ kekId, after = { keyId: '', epoch: 0 }, max }) {
      return transaction(db, () => {
        const rows = select.all({ kekId, max, keyId: after.keyId, epoch: after.epoch }) as unknown as SealedRow[];
        const damaged = rows.map(reseal).filter((why) => why !== undefined);
        const last = rows.length === max ? rows.at(-1)! : undefined;
        return { position: last && { keyId: last.keyId, epoch: last.epoch }, damaged };
      });
    },
    truncateLog: () => db.exec('pragma wal_checkpoint(truncate)'),
  };
}
