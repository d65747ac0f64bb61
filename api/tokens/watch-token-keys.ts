import { statSync } from 'node:fs';
import type { Logger } from '../../shared/log.ts';
import { ConfigError } from '../../shared/read-env.ts';
import { readTokenKeys, type TokenKeys } from './read-token-keys.ts';

/** How often the file is looked at. A new key signs only minutes after it was put there. */
const everyMs = 2_000;

/** The keys of a file, as it is now. */
export interface WatchedTokenKeys {
  keys(): TokenKeys;
  /** Looks at the file now. */
  lookAgain(): void;
}

/**
 * Keys of access tokens that are taken up from the file when it changes, so that a rotation needs no restart. A file that
 * cannot be used leaves the keys as they were, and is told of once. Does not keep the process alive.
 * @throws ConfigError where the file cannot be used at the start
 */
export function watchTokenKeys(path: string, { log }: { log: Logger }): WatchedTokenKeys {
  // Before it is read: whatever changes meanwhile is seen later.
  let seen = describe(path);
  let keys = readTokenKeys(path);

  function look(): void {
    const now = describe(path);
    if (now === seen) return;
    seen = now;
    try {
      keys = readTokenKeys(path);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      log.error({ reason: error.message }, 'the file of token keys cannot be used: the keys stay as they were');
      return;
    }
    log.info({ kids: keys.publicJwks.keys.map(({ kid }) => kid) }, 'took up the keys of access tokens');
  }

  setInterval(look, everyMs).unref();
  return { keys: () => keys, lookAgain: look };
}

/** Changes whenever the file does, also when another is put in its place. */
function describe(path: string): string {
  const { ino, size, mtimeNs } = statSync(path, { bigint: true, throwIfNoEntry: false }) ?? {};
  return `${ino} ${size} ${mtimeNs}`;
}
