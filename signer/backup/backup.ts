import { join } from 'node:path';
import type { CryptoKey } from 'jose';
import type { Logger } from '../../shared/log.ts';
import type { Party } from '../parties.ts';
import { Refusal } from '../refusal.ts';
import type { DumpStore } from '../store/dump.ts';
import { type BackupFile, backupFileName, createBackupFile } from './file.ts';
import { createEncrypter } from './frame.ts';

/** How often it is looked whether there is something new that nobody waits for, and whether the file is still there. */
const EVERY_MS = 60_000;
/** After the last erased epoch, so that a refresh of many keys rewrites once. */
const REWRITE_AFTER_MS = 10_000;
/** Below this nobody minds what is waste. */
const WASTE_BYTES_MIN = 4 * 1024 * 1024;

/** Where one signer keeps its backup. */
export interface BackupTarget {
  dir: string;
  /** age recipients, `age1…`. Who has the identity of one of them can restore. */
  recipients: readonly string[];
}

/** The state of a signer's backup. No secret. */
export interface BackupStatus {
  file: string;
  bytes: number;
  /** When the file last held everything, as far as this signer knows; null: never since its start. */
  currentAtMs: number | null;
  /** Why it does not now. */
  error: string | null;
}

/**
 * Keeps everything of one signer but its signing log in one encrypted file, whose private key it does not have. Without a
 * target all of it does nothing, and succeeds.
 */
export interface SignerBackup {
  /**
   * Brings a share, which the store has, into the backup; durable on return. To be awaited before this signer says that
   * it has stored it.
   * @throws Refusal `backup_failed`
   */
  keep(p: { keyId: string; epoch: number }): Promise<void>;
  /** A key was activated, switched or lost old epochs: tells the backup, soon. Never throws; failures are tried again. */
  changed(keyId: string): void;
  /** Writes the whole file anew. @throws Refusal `backup_failed`, also where there is no target */
  rewrite(): Promise<BackupStatus>;
  /** Null: there is no target. */
  status(): BackupStatus | null;
  /** Writes the file anew, and brings it up to date from then on. Does not keep the process alive. */
  start(): void;
  stop(): void;
}

export interface BackupOptions {
  target: BackupTarget | undefined;
  party: Party;
  store: DumpStore;
  signingKey: CryptoKey;
  log: Logger;
  now: () => Date;
}

/** @throws Error when a recipient is none */
export function createSignerBackup(o: BackupOptions): SignerBackup {
  if (o.target) return createBackup({ ...o, target: o.target });
  return {
    keep: async () => undefined,
    changed: () => undefined,
    async rewrite() {
      throw new Refusal(
        'backup_failed',
        `signer ${o.party} has no backup: set PURSER_SIGNER_BACKUP_DIR and PURSER_SIGNER_BACKUP_RECIPIENT`,
      );
    },
    status: () => null,
    start: () => undefined,
    stop: () => undefined,
  };
}

function createBackup(o: BackupOptions & { target: BackupTarget }): SignerBackup {
  const { store, party, log, target, now } = o;
  const file = join(target.dir, backupFileName(party));
  const encrypter = createEncrypter(target.recipients);
  const exclusively = createTurns();
  const dirty = new Set<string>();
  /** Each key where it stands last in the file: its epochs with the runs that made them, and its bytes. */
  const live = new Map<string, { runs: ReadonlyMap<number, string>; bytes: number }>();
  let current: BackupFile | undefined;
  let restBytes = 0;
  let recordsAtMs = 0;
  let currentAtMs: number | null = null;
  let failure: string | null = null;
  let isStopped = false;
  let isErased = false;
  let rewriteTimer: NodeJS.Timeout | undefined;
  let timer: NodeJS.Timeout | undefined;

  /** Every way of writing ends here: the state is what the last attempt found. */
  async function attempt<T>(run: () => Promise<T>): Promise<T> {
    try {
      const result = await run();
      failure = null;
      currentAtMs = now().getTime();
      return result;
    } catch (error) {
      if (isStopped) throw new Refusal('backup_failed', `signer ${party} is stopping`);
      const why = error instanceof Error ? error.message : String(error);
      const message = `signer ${party} cannot write its backup ${file} (${why}): it takes part in no new key and no refresh until it can; signing goes on`;
      if (failure !== message) log.error({ alert: 'backup_failed', file }, message);
      failure = message;
      await drop();
      throw new Refusal('backup_failed', message, { cause: error });
    }
  }

  /** What was half written is not written to again. */
  async function drop(): Promise<void> {
    const dropped = current;
    current = undefined;
    await dropped?.close().catch(() => undefined);
  }

  async function writeKey(to: BackupFile, keyId: string, isDurable: boolean): Promise<void> {
    const dumped = store.dumpKey(keyId);
    if (!dumped) return;
    try {
      const bytes = await to.append({ kind: 'key', keyId, ...dumped }, { isDurable });
      const runs = new Map(dumped.shares.map((row) => [row.epoch as number, row.session_id as string]));
      for (const [epoch, run] of live.get(keyId)?.runs ?? []) if (runs.get(epoch) !== run) isErased = true;
      live.set(keyId, { runs, bytes });
    } finally {
      for (const { share } of dumped.shares) (share as Uint8Array).fill(0);
    }
  }

  async function writeRows(to: BackupFile, p: { sinceMs: number | undefined }): Promise<number> {
    const since = now().getTime();
    let bytes = 0;
    for (const page of store.dumpTables(p)) {
      bytes += await to.append({ kind: 'rows', ...page }, { isDurable: false });
      if (isStopped) throw new Error('the signer is stopping');
    }
    recordsAtMs = since;
    return bytes;
  }

  async function writeAnew(): Promise<void> {
    clearTimeout(rewriteTimer);
    rewriteTimer = undefined;
    const next = await createBackupFile({ ...o, ...target, encrypter, keys: store.countAllKeys() });
    try {
      dirty.clear();
      live.clear();
      isErased = false;
      restBytes = await next.append({ kind: 'begin', schema: store.schemaVersion() }, { isDurable: false });
      for (const keyId of store.keysWithShares()) {
        await writeKey(next, keyId, false);
        if (isStopped) throw new Error('the signer is stopping');
      }
      restBytes += await writeRows(next, { sinceMs: undefined });
      restBytes += await next.append({ kind: 'end' }, { isDurable: false });
      await next.publish();
    } catch (error) {
      await next.close().catch(() => undefined);
      throw error;
    }
    await drop();
    current = next;
    log.debug({ file, keys: live.size, bytes: next.bytes }, 'wrote the backup anew');
  }

  /** The file as it is to be written to; written anew where it is gone, changed, or was left half-written. */
  async function intactFile(): Promise<{ to: BackupFile; isNew: boolean }> {
    if (current && (await current.isIntact())) return { to: current, isNew: false };
    await writeAnew();
    return { to: current!, isNew: true };
  }

  function considerRewrite(): void {
    const liveBytes = [...live.values()].reduce((sum, { bytes }) => sum + bytes, restBytes);
    const total = current?.bytes ?? 0;
    const isWaste = total > WASTE_BYTES_MIN && total > 2 * liveBytes;
    if (!isWaste && !isErased) return;
    // Each erased epoch begins the wait anew; waste does not wait.
    clearTimeout(rewriteTimer);
    rewriteTimer = setTimeout(() => background(writeAnew), isWaste ? 0 : REWRITE_AFTER_MS).unref();
  }

  /** What nobody waits for: its failure is in the log and in the status, and it is tried again. */
  function background(run: () => Promise<void>): void {
    if (isStopped) return;
    void exclusively(() => attempt(run)).catch(() => undefined);
  }

  async function bringUpToDate(): Promise<void> {
    const { to, isNew } = await intactFile();
    if (!isNew) {
      for (const keyId of dirty) {
        await writeKey(to, keyId, false);
        dirty.delete(keyId);
      }
      await writeRows(to, { sinceMs: recordsAtMs });
      await to.sync();
    }
    considerRewrite();
  }

  const status = (): BackupStatus => ({ file, bytes: current?.bytes ?? 0, currentAtMs, error: failure });
  return {
    keep: ({ keyId, epoch }) =>
      exclusively(() =>
        attempt(async () => {
          const { to, isNew } = await intactFile();
          // An interrupted run leaves an epoch of the same number and another share.
          const run = store.runOfShare({ keyId, epoch });
          if (run === undefined) throw new Error(`epoch ${epoch} of key ${keyId} is not stored`);
          const isKept = () => live.get(keyId)?.runs.get(epoch) === run;
          if (!isNew && !isKept()) await writeKey(to, keyId, true);
          if (!isKept()) throw new Error(`epoch ${epoch} of key ${keyId} was given up meanwhile`);
          considerRewrite();
        }),
      ),
    changed(keyId) {
      dirty.add(keyId);
      background(bringUpToDate);
    },
    rewrite: () => exclusively(() => attempt(writeAnew)).then(status),
    status,
    start() {
      background(writeAnew);
      timer = setInterval(() => background(bringUpToDate), EVERY_MS).unref();
    },
    stop() {
      isStopped = true;
      clearInterval(timer);
      clearTimeout(rewriteTimer);
      void exclusively(drop);
    },
  };
}

/** One after another, in order. */
function createTurns(): <T>(run: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (run) => {
    const turn = last.then(run);
    last = turn.catch(() => undefined);
    return turn;
  };
}
