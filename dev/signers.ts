import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { initTokenKeys } from '../api/init-token-keys.ts';
import type { Party, SignerEndpoint } from '../signer/client.ts';
import { initSecrets } from '../signer/init.ts';
import { makeOwnerKey } from '../signer/owner-key-file.ts';
import { initWebhookKeys, type WebhookKeyFiles } from '../worker/init-webhook-keys.ts';
import { markDevelopment } from './mark-development.ts';
import { LOOPBACK } from './ports.ts';
import { type Child, type Guard, startProcess, waitUntilReady } from './process.ts';

const START_TIMEOUT_MS = 60_000;
const HERE = fileURLToPath(new URL('..', import.meta.url));
const PARTIES: readonly Party[] = [1, 2, 3];

/** Secret files and public identities of a whole installation. */
export interface StackKeys {
  coordinator: { identityFile: string; publicKey: string };
  policy: { identityFile: string; publicKey: string };
  operator: { identityFile: string; publicKey: string };
  /** Of the developer's account: who sets limits. No process of the service has it. */
  owner: { identityFile: string; publicKey: string };
  signers: Record<Party, { identityFile: string; kekFile: string; publicKey: string }>;
  webhooks: WebhookKeyFiles;
  /** Keys of access tokens. */
  tokensFile: string;
}

/**
 * Makes what is missing of the keys: a coordinator's, the policy step's, an operator's, an account owner's, three signers', those for secrets of webhooks,
 * and those of access tokens. All are marked as made for trying out.
 */
export async function prepareKeys(file: (...names: string[]) => string): Promise<StackKeys> {
  const prepare = async (kind: 'signer' | 'coordinator' | 'policy' | 'operator', dir: string) => {
    const identityFile = `${dir}/${kind === 'signer' ? 'identity' : kind}.json`;
    const kekFile = `${dir}/kek`;
    if (!existsSync(identityFile)) await initSecrets({ kind, dir });
    for (const file of kind === 'signer' ? [identityFile, kekFile] : [identityFile]) markDevelopment(file);
    return { identityFile, kekFile, publicKey: readPublicKey(identityFile) };
  };
  const ownerFile = file('keys', 'owner.json');
  if (!existsSync(ownerFile)) await makeOwnerKey({ file: ownerFile });
  markDevelopment(ownerFile);
  const [first, second, third] = await Promise.all(
    PARTIES.map((party) => prepare('signer', file('signers', String(party)))),
  );
  const webhooks = {
    keysFile: file('keys', 'webhooks.jwks.json'),
    publicKeyFile: file('keys', 'webhooks-public.json'),
  };
  if (!existsSync(webhooks.keysFile) || !existsSync(webhooks.publicKeyFile))
    await initWebhookKeys({ ...webhooks, rotate: existsSync(webhooks.keysFile) });
  const tokensFile = file('keys', 'tokens.jwks.json');
  if (!existsSync(tokensFile)) await initTokenKeys({ keysFile: tokensFile });
  for (const made of [webhooks.keysFile, webhooks.publicKeyFile, tokensFile]) markDevelopment(made);
  return {
    coordinator: await prepare('coordinator', file('keys')),
    policy: await prepare('policy', file('keys')),
    operator: await prepare('operator', file('keys')),
    owner: { identityFile: ownerFile, publicKey: readPublicKey(ownerFile) },
    signers: { 1: first!, 2: second!, 3: third! },
    webhooks,
    tokensFile,
  };
}

interface Jwk {
  x: string;
}

/** The public halves stand in the secret file as well: `x` of each key. */
function readPublicKey(identityFile: string): string {
  const identity = JSON.parse(readFileSync(identityFile, 'utf8')) as Jwk | { signing: Jwk; encryption: Jwk };
  return 'signing' in identity ? `${identity.signing.x}.${identity.encryption.x}` : identity.x;
}

/** Addresses and identities of the three signers, as the coordinator needs them. */
export function signerEndpoints(keys: StackKeys, ports: readonly [number, number, number]): SignerEndpoint[] {
  return PARTIES.map((party) => ({
    party,
    url: `http://${LOOPBACK}:${ports[party - 1]}`,
    publicKey: keys.signers[party].publicKey,
  }));
}

/**
 * Starts one signer process, as a real installation does, and waits until it answers.
 * @param o.code folder of the version that runs; default this one
 */
export async function startSigner(
  guard: Guard,
  o: {
    party: Party;
    port: number;
    keys: StackKeys;
    dataDir: string;
    logFile: string;
    env: NodeJS.ProcessEnv;
    code?: string;
  },
): Promise<Child> {
  const { keys, party, code = HERE } = o;
  const peers = Object.fromEntries(PARTIES.map((other) => [other, keys.signers[other].publicKey]));
  const child = await startProcess(guard, {
    name: `Signer ${party}`,
    command: process.execPath,
    args: [join(code, 'signer', 'main.ts')],
    // A signer gets nothing of the caller's environment but these: it needs no address and no password of the others.
    env: {
      PATH: o.env.PATH,
      ...(o.env.PURSER_ENGINE && { PURSER_ENGINE: o.env.PURSER_ENGINE }),
      ...(o.env.PURSER_LOG_LEVEL && { PURSER_LOG_LEVEL: o.env.PURSER_LOG_LEVEL }),
      ...(o.env.PURSER_METRICS_PORT && { PURSER_METRICS_PORT: o.env.PURSER_METRICS_PORT }),
      PURSER_ENV: 'sandbox',
      PURSER_SIGNER_PARTY: String(party),
      PURSER_SIGNER_HOST: LOOPBACK,
      PURSER_SIGNER_PORT: String(o.port),
      PURSER_SIGNER_DATA_DIR: o.dataDir,
      PURSER_SIGNER_KEK_FILE: keys.signers[party].kekFile,
      PURSER_SIGNER_IDENTITY_FILE: keys.signers[party].identityFile,
      PURSER_SIGNER_PEERS: JSON.stringify(peers),
      PURSER_COORDINATOR_PUBLIC_KEY: keys.coordinator.publicKey,
      PURSER_POLICY_PUBLIC_KEY: keys.policy.publicKey,
      PURSER_OPERATOR_PUBLIC_KEY: keys.operator.publicKey,
    },
    logFile: o.logFile,
  });
  try {
    await waitUntilReady(child, {
      timeoutMs: START_TIMEOUT_MS,
      async check() {
        const response = await fetch(`http://${LOOPBACK}:${o.port}/healthz`);
        if (!response.ok) throw new Error(`/healthz answered ${response.status}`);
      },
    });
  } catch (error) {
    await child.stop();
    throw error;
  }
  return child;
}
