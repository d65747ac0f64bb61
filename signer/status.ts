import type { BackupStatus } from './backup/backup.ts';
import type { SignerContext } from './context.ts';
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
  kek: KekStatus;
  /** Null: there is no target for one. */
  backup: BackupStatus | null;
}

export async function status(context: SignerContext): Promise<SignerStatus> {
  const { party, engine, store, kekRotation, backup } = context;
  return {
    party,
    engine: engine.build,
    keys: store.listKeys(),
    bans: store.listBans(),
    limits: store.listLimits().map(({ keyId, wallet, version }) => ({ keyId, wallet, version })),
    kek: kekRotation.status(),
    backup: backup.status(),
  };
}
