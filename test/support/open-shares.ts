import { readFileSync } from 'node:fs';
import { engineVersion } from '../../signer/engine/engine.ts';
import { createKeyEncryption } from '../../signer/kek.ts';
import { parseKeks } from '../../signer/kek-source.ts';
import type { Party } from '../../signer/parties.ts';
import { openSignerStore } from '../../signer/store.ts';

/** A share as the engine gets it, and what of it anybody may know. */
interface OpenShare {
  readonly keyId: string;
  readonly epoch: number;
  readonly share: Uint8Array;
  readonly isPublic: readonly Uint8Array[];
}

/** Opens the store of a signer that has ended, with its own key-encryption key, for tests that look where shares are not. */
export function openShares(p: { party: Party; dataDir: string; kekFile: string }): OpenShare[] {
  const keks = parseKeks({ name: p.kekFile, text: readFileSync(p.kekFile, 'utf8') });
  const keyEncryption = createKeyEncryption(keks);
  const store = openSignerStore({ ...p, engineVersion, keyEncryption, now: () => new Date() });
  try {
    return store.listKeys().flatMap(({ keyId }) =>
      store.activeEpochs(keyId).map((epoch) => {
        const { share, publicKey, chainCode } = store.getShare(keyId, epoch);
        const { sessionId } = store.epochFacts(keyId, epoch)!;
        return { keyId, epoch, share, isPublic: [publicKey, chainCode, Buffer.from(sessionId, 'hex')] };
      }),
    );
  } finally {
    store.close();
  }
}
