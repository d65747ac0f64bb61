import { setImmediate } from 'node:timers/promises';
import type { Logger } from '../shared/log.ts';
import type { Kek, KeyEncryption } from './kek.ts';
import type { KekSource } from './kek-source.ts';
import type { ResealPosition, ResealStore } from './store/reseal.ts';

/** How often the source is asked. */
const EVERY_MS = 2_000;
/** Shares that are sealed anew between two turns of signing: some 2 ms. */
const RESEAL_MAX = 8;

/** Which key-encryption keys a signer has, and what is sealed under each. No secret. */
export interface KekStatus {
  /** Id of the key under which everything is sealed, or is being sealed. */
  current: string;
  /** Keys from before. One without shares may be taken out of where the signer has it from. */
  earlier: { id: string; shares: number }[];
}

/** Takes up new key-encryption keys while the signer runs, and seals its shares under the current one. */
export interface KekRotation {
  status(): KekStatus;
  /** Looks now and then whether there is a new key. Does not keep the process alive. */
  start(): void;
  stop(): void;
}

/**
 * Shares are sealed anew a few at a time, so signing goes on; a crash leaves each under the old key or the new.
 * @throws Error of one sentence when shares are sealed under a key that is not there
 */
export function createKekRotation(p: {
  source: KekSource;
  keyEncryption: KeyEncryption;
  store: ResealStore;
  log: Logger;
}): KekRotation {
  const { source, keyEncryption, store, log } = p;
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  let isLooking = false;
  let told = '';
  requireKeks(store, { name: source.name, ids: keyEncryption.ids() });

  async function takeUp(): Promise<void> {
    let keks: readonly Kek[];
    try {
      keks = await source.read();
      if (isStopped) return;
      requireKeks(store, { name: source.name, ids: keks.map(({ id }) => id) });
    } catch (error) {
      const { message } = error as Error;
      if (message !== told) log.error({ reason: message }, 'the key-encryption keys stay as they were');
      told = message;
      return;
    }
    told = '';
    const ids = keks.map(({ id }) => id);
    if (ids.join() === keyEncryption.ids().join()) return;
    keyEncryption.replace(keks);
    log.info({ current: ids[0], earlier: ids.slice(1) }, 'took up key-encryption keys');
  }

  async function resealAll(): Promise<void> {
    const kekId = keyEncryption.ids()[0]!;
    const shares = sum(countOthers());
    if (shares === 0) return;
    const damaged: string[] = [];
    let position: ResealPosition | undefined;
    do {
      const step = store.resealSome({ kekId, after: position, max: RESEAL_MAX });
      position = step.position;
      damaged.push(...step.damaged);
      await setImmediate();
    } while (position && !isStopped);
    if (isStopped) return;
    store.truncateLog();
    if (damaged.length < shares) log.info({ kek: kekId, shares: shares - damaged.length }, 'shares were sealed anew');
    const reason = damaged.join('; ');
    if (damaged.length > 0 && reason !== told) log.error({ reason }, 'shares could not be sealed anew');
    if (damaged.length > 0) told = reason;
  }

  function countOthers(): Map<string, number> {
    const counts = new Map(store.sharesByKek());
    counts.delete(keyEncryption.ids()[0]!);
    return counts;
  }

  async function look(): Promise<void> {
    if (isLooking || isStopped) return;
    isLooking = true;
    try {
      await takeUp();
      if (!isStopped) await resealAll();
    } catch (error) {
      log.error({ err: error }, 'shares could not be sealed anew; this is tried again');
    } finally {
      isLooking = false;
    }
  }

  return {
    status() {
      const [current, ...earlier] = keyEncryption.ids();
      const counts = countOthers();
      const ids = new Set([...earlier, ...counts.keys()]);
      return { current: current!, earlier: [...ids].map((id) => ({ id, shares: counts.get(id) ?? 0 })) };
    },
    start() {
      void look();
      timer = setInterval(() => void look(), EVERY_MS).unref();
    },
    stop() {
      isStopped = true;
      clearInterval(timer);
    },
  };
}

/** A key that is missing is told of before a share is asked for, with where to put it back. */
function requireKeks(store: ResealStore, { name, ids }: { name: string; ids: readonly string[] }): void {
  const missing = [...store.sharesByKek()].filter(([id]) => id !== '' && !ids.includes(id));
  if (missing.length === 0) return;
  const what = missing.map(([id, n]) => `${n} ${n === 1 ? 'share is' : 'shares are'} sealed under ${id}`).join(', ');
  throw new Error(
    `${name} does not hold every key-encryption key that is in use: ${what}, it holds ${ids.join(', ')}; put the missing one below the others`,
  );
}

const sum = (counts: ReadonlyMap<string, number>): number => [...counts.values()].reduce((a, b) => a + b, 0);
