import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { CryptoKey } from 'jose';
import { importReceiptKey } from '../../shared/receipt.ts';
import type { SignerEndpoint } from '../../signer/client.ts';
import type { SignerIdentity } from '../../signer/identity.ts';
import { type CoordinatorIdentity, loadCoordinatorIdentity, loadSignerIdentity } from '../../signer/identity.ts';
import { initSecrets } from '../../signer/init.ts';
import { PARTIES, type Party } from '../../signer/parties.ts';

const START_TIMEOUT_MS = 120_000;
const main = fileURLToPath(new URL('../../signer/main.ts', import.meta.url));

export interface TestSigners {
  endpoints: SignerEndpoint[];
  coordinatorIdentity: CoordinatorIdentity;
  /** Files for processes that read their secrets themselves. */
  coordinatorIdentityFile: string;
  operatorIdentity: CoordinatorIdentity;
  operatorIdentityFile: string;
  policyKeyFile: string;
  policyPublicKey: string;
  /** Private key of the policy step; undefined when the caller brought its own public key. */
  policyKey: CryptoKey;
  /** A signer's own secrets, for tests that play a dishonest signer. */
  identityOf(party: Party): Promise<SignerIdentity>;
  dataDirOf(party: Party): string;
  /** Text of every secret file, for tests that look for leaks. */
  secrets(): string[];
  /** Everything that the signers have written so far. */
  output(): string;
  /** Ends one process (default SIGKILL) and waits until it is gone. */
  kill(party: Party, signal?: NodeJS.Signals): Promise<void>;
  /** Suspends or resumes one process, as an overloaded machine would. */
  pause(party: Party): void;
  resume(party: Party): void;
  /** Starts one again on its old port and data; resolves when it answers. */
  restart(party: Party): Promise<void>;
  stop(): Promise<void>;
}

/** Three real signer processes on free ports, with fresh secrets in a directory of their own. */
export async function startSigners(
  p: {
    policyPublicKey?: string;
    engine?: 'wasm' | 'native';
    /** More settings of one signer's process. */
    env?: (party: Party) => Record<string, string>;
    /** Where a signer runs, if not in this process's own network: what its command begins with, and its address there. */
    network?: (party: Party) => { readonly exec: readonly string[]; readonly host: string } | undefined;
  } = {},
): Promise<TestSigners> {
  const home = mkdtempSync(join(tmpdir(), 'purser-signers-'));
  const coordinator = await initSecrets({ kind: 'coordinator', dir: join(home, 'keys') });
  const policy = await initSecrets({ kind: 'policy', dir: join(home, 'keys') });
  const operator = await initSecrets({ kind: 'operator', dir: join(home, 'keys') });
  const made = new Map(await Promise.all(PARTIES.map(async (party) => [party, await prepare(home, party)] as const)));
  const publicKeys = Object.fromEntries([...made].map(([party, { publicKey }]) => [party, publicKey]));
  const policyPublicKey = p.policyPublicKey ?? policy.publicKey;
  const processes = new Map<Party, ChildProcess>();
  let output = '';

  async function start(party: Party): Promise<void> {
    const { port, dir, identityFile, kekFile } = made.get(party)!;
    const network = p.network?.(party);
    const [command, ...args] = [...(network?.exec ?? []), process.execPath, main];
    const child = spawn(command!, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        ...(network && { PURSER_SIGNER_HOST: network.host }),
        PURSER_SIGNER_PARTY: `${party}`,
        PURSER_SIGNER_PORT: `${port}`,
        PURSER_SIGNER_DATA_DIR: join(dir, 'data'),
        PURSER_SIGNER_KEK_FILE: kekFile!,
        PURSER_SIGNER_IDENTITY_FILE: identityFile,
        PURSER_SIGNER_PEERS: JSON.stringify(publicKeys),
        PURSER_COORDINATOR_PUBLIC_KEY: coordinator.publicKey,
        PURSER_POLICY_PUBLIC_KEY: policyPublicKey,
        PURSER_OPERATOR_PUBLIC_KEY: operator.publicKey,
        ...p.env?.(party),
        PURSER_ENGINE: p.engine ?? 'wasm',
        PURSER_LOG_LEVEL: 'trace',
      },
    });
    processes.set(party, child);
    const ready = Promise.withResolvers<void>();
    const timer = setTimeout(
      () => ready.reject(new Error(`signer ${party} did not start:\n${output}`)),
      START_TIMEOUT_MS,
    );
    for (const stream of [child.stdout!, child.stderr!]) {
      createInterface({ input: stream }).on('line', (line) => {
        output += `${line}\n`;
        if (!line.includes('signer is ready')) return;
        // A free port at first; the same one after a restart, as the coordinator expects.
        made.get(party)!.port = JSON.parse(line).port;
        ready.resolve();
      });
    }
    child.once('exit', (code) => ready.reject(new Error(`signer ${party} ended with ${code}:\n${output}`)));
    await ready.promise.finally(() => clearTimeout(timer));
  }
  async function kill(party: Party, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = processes.get(party);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGCONT');
    child.kill(signal);
    await gone;
  }

  try {
    await Promise.all(PARTIES.map(start));
  } catch (error) {
    // Whoever called gets nothing to stop.
    await Promise.all(PARTIES.map((party) => kill(party)));
    rmSync(home, { recursive: true, force: true });
    throw error;
  }
  return {
    endpoints: [...made].map(([party, { port, publicKey }]) => {
      const host = p.network?.(party)?.host ?? '127.0.0.1';
      return { party, url: `http://${host}:${port}`, publicKey };
    }),
    coordinatorIdentity: await loadCoordinatorIdentity(coordinator.identityFile),
    coordinatorIdentityFile: coordinator.identityFile,
    operatorIdentity: await loadCoordinatorIdentity(operator.identityFile),
    operatorIdentityFile: operator.identityFile,
    policyKeyFile: policy.identityFile,
    policyPublicKey,
    policyKey: await importReceiptKey(readFileSync(policy.identityFile, 'utf8')),
    identityOf: (party) => loadSignerIdentity(made.get(party)!.identityFile),
    dataDirOf: (party) => join(made.get(party)!.dir, 'data'),
    secrets: () =>
      [
        coordinator.identityFile,
        policy.identityFile,
        operator.identityFile,
        ...[...made.values()].flatMap((m) => [m.identityFile, m.kekFile!]),
      ].map((file) => readFileSync(file, 'utf8')),
    output: () => output,
    kill,
    pause: (party) => void processes.get(party)?.kill('SIGSTOP'),
    resume: (party) => void processes.get(party)?.kill('SIGCONT'),
    restart: start,
    async stop() {
      await Promise.all(PARTIES.map((party) => kill(party, 'SIGTERM')));
      rmSync(home, { recursive: true, force: true });
    },
  };
}

async function prepare(home: string, party: Party) {
  const dir = join(home, `signer-${party}`);
  return { dir, port: 0, ...(await initSecrets({ kind: 'signer', dir })) };
}
