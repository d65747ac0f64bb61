import { isEngineBroken, type KeyShare, type ThresholdEngine } from './engine/engine.ts';
import { Refusal } from './refusal.ts';
import type { StoredShare } from './store/shares.ts';
import type { SignerStore } from './store.ts';

/** Unsealed shares in memory, about 0.1 MB each. Sealed at rest; the least recently used is cleared first. */
const ACCOUNT_SHARES_MAX = 32;
const CHILD_SHARES_MAX = 128;

/** Shares ready for signing: opening one costs a decryption and a parse, deriving a child 3 to 16 ms. */
export interface ShareCache {
  /** @throws Refusal `unknown_key`, `share_damaged` */
  child(p: { keyId: string; path: string; epoch: number }): KeyShare;
  /** Drops the shares of a key, of all epochs: they were erased from the store. */
  forget(keyId: string): void;
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
  const accounts = createCache(ACCOUNT_SHARES_MAX);
  const children = createCache(CHILD_SHARES_MAX);

  return {
    child: ({ keyId, path, epoch }) =>
      children.get([keyId, epoch, path], () =>
        accounts
          .get([keyId, epoch], () => parseShare(engine, { keyId, stored: store.getShare(keyId, epoch) }))
          .derive(path),
      ),
    forget(keyId) {
      for (const cache of [accounts, children]) cache.drop((of) => of === keyId);
    },
    clear() {
      for (const cache of [accounts, children]) cache.drop(() => true);
    },
  };
}

/** The most recently used stands last. A share that is dropped is freed; a session that uses it has its own reference. */
function createCache(max: number) {
  const shares = new Map<string, { keyId: string; share: KeyShare }>();
  return {
    get(of: readonly [keyId: string, ...more: (string | number)[]], load: () => KeyShare): KeyShare {
      const id = of.join(' ');
      const entry = shares.get(id) ?? { keyId: of[0], share: load() };
      shares.delete(id);
      shares.set(id, entry);
      if (shares.size > max) {
        const [oldestId, oldest] = shares.entries().next().value!;
        shares.delete(oldestId);
        oldest.share.free();
      }
      return entry.share;
    },
    drop(isDropped: (keyId: string) => boolean): void {
      for (const [id, { keyId, share }] of shares) {
        if (!isDropped(keyId)) continue;
        shares.delete(id);
        share.free();
      }
    },
  };
}
