import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CryptoKey } from 'jose';
import { importReceiptKey } from '../../shared/receipt.ts';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../signer/call.ts';
import { composeSigner } from '../../signer/compose.ts';
import { readSignerConfig } from '../../signer/config.ts';
import type { SignerContext } from '../../signer/context.ts';
import { type CoordinatorIdentity, loadCoordinatorIdentity, parsePublicIdentity } from '../../signer/identity.ts';
import { initSecrets } from '../../signer/init.ts';
import { PARTIES, type Party } from '../../signer/parties.ts';
import { createSignerServer } from '../../signer/server.ts';

/** One signer in this process: the real composition, a real store and the real HTTP face. */
export interface HostedSigner {
  context: SignerContext;
  server: Server;
  url: string;
  stop(): Promise<void>;
}

/** @param env settings of one signer, as its process would get them */
async function hostSigner(
  env: Record<string, string>,
  p: { onBroken: (error: unknown) => void },
): Promise<HostedSigner> {
  const context = await composeSigner(readSignerConfig(env));
  const server = createSignerServer(context, p);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    context,
    server,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      context.sessions.stop();
      context.shares.clear();
      context.store.close();
    },
  };
}

/** All three signers in this process, for tests with more runs than three processes would bear. */
export interface HostedSigners {
  signer(party: Party): HostedSigner;
  peer(party: Party): SignerPeer;
  /** As the coordinator. */
  transport: SignerTransport;
  coordinatorIdentity: CoordinatorIdentity;
  policyKey: CryptoKey;
  /** What broke the engine: a process of its own would have ended. */
  broken: unknown[];
  dataDirOf(party: Party): string;
  /** Stops all three, and leaves their files. */
  close(): Promise<void>;
  /** Stops all three, if they are not stopped, and removes their files. */
  stop(): Promise<void>;
}

export async function hostSigners(): Promise<HostedSigners> {
  const home = mkdtempSync(join(tmpdir(), 'purser-hosted-'));
  const keys = join(home, 'keys');
  const coordinator = await initSecrets({ kind: 'coordinator', dir: keys });
  const policy = await initSecrets({ kind: 'policy', dir: keys });
  const made = await Promise.all(
    PARTIES.map(async (party) => ({
      party,
      ...(await initSecrets({ kind: 'signer', dir: join(home, `signer-${party}`) })),
    })),
  );
  const broken: unknown[] = [];
  const signers = new Map<Party, HostedSigner>();
  const peers = new Map<Party, SignerPeer>();
  for (const { party, publicKey, identityFile, kekFile } of made) {
    const env = {
      PURSER_SIGNER_PARTY: `${party}`,
      PURSER_SIGNER_PORT: '0',
      PURSER_SIGNER_DATA_DIR: join(home, `signer-${party}`, 'data'),
      PURSER_SIGNER_KEK_FILE: kekFile!,
      PURSER_SIGNER_IDENTITY_FILE: identityFile,
      PURSER_SIGNER_PEERS: JSON.stringify(Object.fromEntries(made.map((m) => [m.party, m.publicKey]))),
      PURSER_COORDINATOR_PUBLIC_KEY: coordinator.publicKey,
      PURSER_POLICY_PUBLIC_KEY: policy.publicKey,
      PURSER_ENGINE: 'wasm',
      PURSER_LOG_LEVEL: 'silent',
    };
    const signer = await hostSigner(env, { onBroken: (error) => broken.push(error) });
    signers.set(party, signer);
    peers.set(party, { party, url: signer.url, identity: await parsePublicIdentity(publicKey) });
  }
  const coordinatorIdentity = await loadCoordinatorIdentity(coordinator.identityFile);
  const transport = createSignerTransport({ identity: coordinatorIdentity, now: () => new Date() });
  async function close(): Promise<void> {
    transport.close();
    const open = [...signers.values()];
    signers.clear();
    await Promise.all(open.map((signer) => signer.stop()));
  }

  return {
    signer: (party) => signers.get(party)!,
    peer: (party) => peers.get(party)!,
    transport,
    coordinatorIdentity,
    policyKey: await importReceiptKey(readFileSync(policy.identityFile, 'utf8')),
    broken,
    dataDirOf: (party) => join(home, `signer-${party}`, 'data'),
    close,
    async stop() {
      await close();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
