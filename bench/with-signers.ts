import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CryptoKey } from 'jose';
import { freePort } from '../dev/ports.ts';
import { type Child, startGuard } from '../dev/process.ts';
import { prepareKeys, signerEndpoints, startSigner } from '../dev/signers.ts';
import { importReceiptKey } from '../shared/receipt.ts';
import { createSignerClient, type SignerClient } from '../signer/client.ts';
import type { EngineChoice } from '../signer/engine/load.ts';
import { loadCoordinatorIdentity } from '../signer/identity.ts';
import { PARTIES } from '../signer/parties.ts';

/** Three signer processes, and the coordinator in this process, as a worker holds it. */
export interface BenchSigners {
  readonly client: SignerClient;
  readonly policyKey: CryptoKey;
  /** By party: 1, 2, 3. */
  readonly processes: readonly Child[];
}

/** Runs `use` on signers of their own, and stops and removes them, whatever happens. @throws what `use` throws */
export async function withSigners<T>(
  { engine }: { engine: EngineChoice },
  use: (signers: BenchSigners) => Promise<T>,
): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-bench-'));
  const file = (...names: string[]) => join(dir, ...names);
  const guard = startGuard();
  let client: SignerClient | undefined;
  try {
    const keys = await prepareKeys(file);
    const ports = [await freePort(), await freePort(), await freePort()] as const;
    const processes = await Promise.all(
      PARTIES.map((party) =>
        startSigner(guard, {
          ...{ party, port: ports[party - 1]!, keys },
          dataDir: file('signers', `${party}`, 'data'),
          logFile: file('logs', `signer-${party}.log`),
          env: { PATH: process.env.PATH, PURSER_ENGINE: engine },
        }),
      ),
    );
    const identity = await loadCoordinatorIdentity(keys.coordinator.identityFile);
    const policyKey = await importReceiptKey(readFileSync(keys.policy.identityFile, 'utf8'));
    client = createSignerClient({ signers: signerEndpoints(keys, ports), identity });
    return await use({ client, policyKey, processes });
  } finally {
    client?.close();
    await guard.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}
