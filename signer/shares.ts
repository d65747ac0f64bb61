import { isEngineBroken, type KeyShare, type ThresholdEngine } from './engine/engine.ts';
import { Refusal } from './refusal.ts';
import type { StoredShare } from './store/shares.ts';
import type { SignerStore } from './store.ts';

/** Unsealed shares in memory, about 0.1 MB each. Sealed at rest; the least recently used is cleared first. */
const ACCOUNT_SHARES_MAX = 32;
const CHILD_SHARES_MAX = 128;

interface LoadedShare {
  share: KeyShare;
  epoch: number;
}

/** Shares ready for signing: opening one costs a decryption and a parse, deriving a child 3 to 16 ms. */
export interface ShareCache {
  /** @throws Refusal `unknown_key`, `share_damaged` */
  child(p: { keyId: string; path: string }): LoadedShare;
  clear(): void;
}

/**
 * Parses a stored share and insists that it is the key that the store says it is.
 * @throws Refusal `share_damaged`
 */
export function parseShare(
  engine: ThresholdEngine,
  { keyId, stored }: { keyId: string; stored: StoredShare },
): KeyShare {
  const what = `the stored share of key ${keyId}, epoch ${stored.epoch},`;
  let share: KeyShare;
  try {
    share = engine.KeyShare.fromBytes(stored.share);
  } catch (error) {
    if (isEngineBroken(error)) throw error;
    throw new Refusal('share_damaged', `${what} is not a share`, { cause: error });
  } finally {
    stored.share.fill(0);
  }
  const same =
    Buffer.from(share.publicKey).equals(stored.publicKey) && Buffer.from(share.chainCode).equals(stored.chainCode);
  if (same) return share;
  share.free();
  throw new Refusal('share_damaged', `${what} belongs to another public key`);
}

export function createShareCache({ engine, store }: { engine: ThresholdEngine; store: SignerStore }): ShareCache {
  const accounts = new Map<string, LoadedShare>();
  const children = new Map<string, LoadedShare>();

  function cached(map: Map<string, LoadedShare>, max: number, id: string, load: () => LoadedShare): LoadedShare {
    const loaded = map.get(id) ?? load();
    map.delete(id);
    map.set(id, loaded); // the most recently used stands last
    if (map.size > max) {
      const [oldestId, oldest] = map.entries().next().value!;
      map.delete(oldestId);
      oldest.share.free(); // a session that uses it holds its own reference inside the engine
    }
    return loaded;
  }
  function account(keyId: string): LoadedShare {
    return cached(accounts, ACCOUNT_SHARES_MAX, keyId, () => {
      if (store.stateOf(keyId) !== 'active') {
        throw new Refusal('unknown_key', `there is no key ${keyId} that all three signers have stored`);
      }
      const stored = store.getShare(keyId);
      return { share: parseShare(engine, { keyId, stored }), epoch: stored.epoch };
    });
  }

  return {
    child({ keyId, path }) {
      return cached(children, CHILD_SHARES_MAX, `${keyId} ${path}`, () => {
        const { share, epoch } = account(keyId);
        return { share: share.derive(path), epoch };
      });
    },
    clear() {
      for (const map of [accounts, children]) {
        for (const { share } of map.values()) share.free();
        map.clear();
      }
    },
  };
}
