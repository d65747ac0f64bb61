import { createLogger } from '../shared/log.ts';
import { createSignerBackup } from './backup/backup.ts';
import type { SignerConfig } from './config.ts';
import type { SignerContext } from './context.ts';
import { engineVersion } from './engine/engine.ts';
import { loadEngine } from './engine/load.ts';
import { createFreezeBook } from './freeze-book.ts';
import { createHoldTable } from './holds.ts';
import { loadSignerIdentity, type PeerIdentity, parsePublicIdentity, parseVerificationKey } from './identity.ts';
import { createKeyEncryption } from './kek.ts';
import type { Party } from './parties.ts';
import { createKekRotation } from './rotate-kek.ts';
import { createSessionTable } from './sessions.ts';
import { createShareCache } from './shares.ts';
import { openSignerStore } from './store.ts';

/**
 * Everything that one signer works with, made from its settings; it listens to nobody yet.
 * @throws Error of one sentence when a secret, the engine or the store cannot be used
 */
export async function composeSigner(config: SignerConfig): Promise<SignerContext> {
  const now = () => new Date();
  const log = createLogger({ process: `signer-${config.party}`, level: config.logLevel });
  const peers = new Map<Party, PeerIdentity>();
  for (const [party, text] of config.peers) peers.set(party, await parsePublicIdentity(text));
  const engine = await loadEngine(config.engine);
  const keyEncryption = createKeyEncryption(await config.keks.read());
  const store = openSignerStore({
    dataDir: config.dataDir,
    party: config.party,
    engineVersion,
    keyEncryption,
    now,
  });
  const onExpired = (expired: { id: string; kind: string }) =>
    log.warn(expired, 'a session took too long and was dropped');
  const identity = await loadSignerIdentity(config.identityFile);
  const { party, backup: target } = config;
  return {
    party,
    identity,
    peers,
    coordinatorKey: await parseVerificationKey(config.coordinatorPublicKey),
    operatorKey: config.operatorPublicKey ? await parseVerificationKey(config.operatorPublicKey) : undefined,
    policyKey: await parseVerificationKey(config.policyPublicKey),
    engine,
    engineChoice: config.engine,
    store,
    kekRotation: createKekRotation({ source: config.keks, keyEncryption, store, log }),
    backup: createSignerBackup({ target, party, store, signingKey: identity.signingKey, log, now }),
    shares: createShareCache({ engine, store }),
    sessions: createSessionTable({ now, onExpired }),
    holds: createHoldTable(),
    freezes: createFreezeBook({ store }),
    log,
    now,
  };
}
