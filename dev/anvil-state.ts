import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { type Hex, hexToBytes } from 'viem';

const unzip = promisify(gunzip);
/** How often the chain's state is saved while it changes; longer when saving itself takes long. */
const SAVE_INTERVAL_MS = 2_000;
const SAVE_COST_FACTOR = 20;

/** Where a chain's state lies. */
interface StateFiles {
  /** Replaced as a whole by each save, so it is never half written. */
  saved: string;
  /** Written by anvil when it ends; half written when it was killed at that moment. */
  atExit: string;
  /** The newer of the two that can be read; undefined for a new chain. */
  newest: string | undefined;
}

/** Finds the newest complete state in `dir` and makes it the one to load. */
export function stateFiles(dir: string): StateFiles {
  mkdirSync(dir, { recursive: true });
  const saved = join(dir, 'state.json');
  const atExit = join(dir, 'state-at-exit.json');
  const [savedHead, exitHead] = [headOf(saved), headOf(atExit)];
  if (exitHead !== undefined && exitHead >= (savedHead ?? 0)) renameSync(atExit, saved);
  else rmSync(atExit, { force: true });
  return { saved, atExit, newest: existsSync(saved) ? saved : undefined };
}

/** Number of the newest block in a state file; undefined when there is no file or it is damaged. */
function headOf(file: string): number | undefined {
  try {
    const state = JSON.parse(readFileSync(file, 'utf8')) as { best_block_number?: string | number };
    return Number(state.best_block_number ?? 0);
  } catch {
    return undefined;
  }
}

/**
 * Saves the chain's state again and again while its head moves. `dump` answers as `anvil_dumpState` does: JSON,
 * zipped, in hex. A save that fails is tried again; the chain may be about to end.
 */
export function startSaving(o: { file: string; head: () => Promise<bigint>; dump: () => Promise<Hex> }): {
  stop(): Promise<void>;
} {
  const end = new AbortController();
  let savedHead: bigint | undefined;
  const save = async () => {
    const head = await o.head();
    if (head === savedHead) return;
    const state = await unzip(hexToBytes(await o.dump()));
    writeFileSync(`${o.file}.new`, state);
    renameSync(`${o.file}.new`, o.file);
    savedHead = head;
  };
  const loop = async () => {
    while (!end.signal.aborted) {
      const from = performance.now();
      await save().catch(() => {});
      const pauseMs = Math.max(SAVE_INTERVAL_MS, SAVE_COST_FACTOR * (performance.now() - from));
      await delay(pauseMs, undefined, { signal: end.signal, ref: false }).catch(() => {});
    }
  };
  const running = loop();
  return {
    async stop() {
      end.abort();
      await running;
    },
  };
}
