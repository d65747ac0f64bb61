import { z } from 'zod';
import type { BackupStatus } from './backup/backup.ts';
import type { SignerContext } from './context.ts';
import type { FreezeStatus } from './freeze-book.ts';
import type { Party } from './parties.ts';
import type { KekStatus } from './rotate-kek.ts';
import type { Ban } from './store/bans.ts';
import type { KeyFacts } from './store/shares.ts';

/** What one signer holds: no share, no secret. */
export interface SignerStatus {
  party: Party;
  /** Build of the engine, `wasm` or `native`. */
  engine: string;
  keys: KeyFacts[];
  bans: Ban[];
  /** Limits that owners set, by key and wallet (`*`: all that have none of their own). */
  limits: { keyId: string; wallet: string; version: number }[];
  /** What it signs nothing new for. */
  frozen: FreezeStatus;
  kek: KekStatus;
  /** Null: there is no target for one. */
  backup: BackupStatus | null;
}

/** Keys in one answer, which has to stay far below the longest body. */
const PAGE_KEYS = 500;

export const statusSchema = z.strictObject({ after: z.string().max(128).default('') });

/** One page of it, in the order of key ids; `next`: the key after which the next page begins, null for the last one. */
export interface StatusPage extends SignerStatus {
  next: string | null;
}

export async function status(
  context: SignerContext,
  { body: { after } }: { body: z.infer<typeof statusSchema> },
): Promise<StatusPage> {
  const { party, engine, store, freezes, kekRotation, backup } = context;
  const keys = store.listKeys({ after, limit: PAGE_KEYS });
  const next = keys.length === PAGE_KEYS ? keys.at(-1)!.keyId : null;
  const isOfPage = ({ keyId }: { keyId: string }) => keyId > after && (next === null || keyId <= next);
  return {
    party,
    engine: engine.build,
    keys,
    bans: store.listBans().filter(isOfPage),
    limits: store
      .listLimits()
      .filter(isOfPage)
      .map(({ keyId, wallet, version }) => ({ keyId, wallet, version })),
    frozen: freezes.status(),
    kek: kekRotation.status(),
    backup: backup.status(),
    next,
  };
}
