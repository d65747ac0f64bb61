import type { DatabaseSync } from 'node:sqlite';
import type { KeyEncryption } from './kek.ts';
import { type BanStore, createBanStore } from './store/bans.ts';
import { openDatabase, transaction } from './store/database.ts';
import { createDumpStore, type DumpStore } from './store/dump.ts';
import { createEpochStore, type EpochStore } from './store/epochs.ts';
import { createFreezeStore, type FreezeStore } from './store/freezes.ts';
import { createLimitStore, type LimitStore } from './store/limits.ts';
import { createMergeStore, type MergeStore } from './store/merge.ts';
import { createRecordStore, type RecordStore } from './store/records.ts';
import { createResealStore, type ResealStore } from './store/reseal.ts';
import { createShareSealing } from './store/sealing.ts';
import { createShareStore, type ShareStore } from './store/shares.ts';
import { createSigningLog, type SigningLog } from './store/signing-log.ts';
import { createSpendingStore, type SpendingStore } from './store/spending.ts';

/** One signer's memory: a SQLite file that no other process opens. One file in store/ for each kind of thing in it. */
export interface SignerStore
  extends ShareStore,
    EpochStore,
    ResealStore,
    DumpStore,
    BanStore,
    RecordStore,
    MergeStore,
    SigningLog,
    LimitStore,
    SpendingStore,
    FreezeStore {
  /** Several changes as one: durable on return, undone when `run` throws. */
  transaction<T>(run: () => T): T;
  close(): void;
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
  const db: DatabaseSync = openDatabase(p.dataDir);
  const sealing = createShareSealing(p);
  const epochs = createEpochStore({ ...p, db, sealing });
  return {
    ...createShareStore({ ...p, db, sealing, epochsOf: epochs.epochsOf }),
    ...epochs,
    ...createResealStore({ db, sealing }),
    ...createDumpStore({ db, sealing }),
    ...createBanStore({ ...p, db }),
    ...createRecordStore({ ...p, db }),
    ...createMergeStore({ db }),
    ...createSigningLog({ ...p, db }),
    ...createLimitStore({ ...p, db }),
    ...createSpendingStore({ db }),
    ...createFreezeStore({ ...p, db }),
    transaction: (run) => transaction(db, run),
    close: () => db.close(),
  };
}
