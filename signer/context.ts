import type { CryptoKey } from 'jose';
import type { Logger } from '../shared/log.ts';
import type { SignerBackup } from './backup/backup.ts';
import type { ThresholdEngine } from './engine/engine.ts';
import type { EngineChoice } from './engine/load.ts';
import type { FreezeBook } from './freeze-book.ts';
import type { HoldTable } from './holds.ts';
import type { PeerIdentity, SignerIdentity } from './identity.ts';
import type { Party } from './parties.ts';
import type { KekRotation } from './rotate-kek.ts';
import type { SessionTable } from './sessions.ts';
import type { ShareCache } from './shares.ts';
import type { SignerStore } from './store.ts';

/** What the operations of one signer work with. Made once, in main.ts. */
export interface SignerContext {
  party: Party;
  identity: SignerIdentity;
  peers: ReadonlyMap<Party, PeerIdentity>;
  coordinatorKey: CryptoKey;
  /** Undefined: what is for the operator only is refused here. */
  operatorKey: CryptoKey | undefined;
  policyKey: CryptoKey;
  engine: ThresholdEngine;
  engineChoice: EngineChoice;
  store: SignerStore;
  kekRotation: KekRotation;
  backup: SignerBackup;
  shares: ShareCache;
  sessions: SessionTable;
  holds: HoldTable;
  freezes: FreezeBook;
  log: Logger;
  now: () => Date;
}

/** @throws Error when configuration did not name that peer, which config.ts makes impossible */
export function peerOf(context: SignerContext, party: Party): PeerIdentity {
  const peer = context.peers.get(party);
  if (!peer) throw new Error(`no public identity of signer ${party}`);
  return peer;
}
