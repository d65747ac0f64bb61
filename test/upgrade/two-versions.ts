import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Address } from 'viem';
import { LOCAL_CHAIN, startAnvil } from '../../dev/anvil.ts';
import { startFaucet } from '../../dev/faucet.ts';
import { startMailbox } from '../../dev/mailbox.ts';
import { freePort, LOOPBACK } from '../../dev/ports.ts';
import { startPostgres } from '../../dev/postgres.ts';
import { type Child, startGuard, startProcess, waitUntilReady } from '../../dev/process.ts';
import { startApi } from '../../dev/services.ts';
import { prepareKeys, signerEndpoints, startSigner } from '../../dev/signers.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { deployToken } from '../../dev/token.ts';
import type { Party } from '../../signer/client.ts';

const run = promisify(execFile);
/** A worker drains for 35 s at most. */
const workerStopMs = 45_000;
const workerStartMs = 120_000;

export type Version = 'old' | 'new';
export type Service = 'api' | 'worker';

/** One installation, whose processes may be of two versions at once: one database, one Temporal, one chain, the same keys. */
export interface TwoVersions {
  readonly rpcUrl: string;
  readonly usdcAddress: Address;
  readonly databaseUrl: string;
  readonly temporalAddress: string;
  apiUrl(version: Version): string;
  /** Runs a program of a version to its end, with the settings of the services. @returns what it printed */
  run(version: Version, program: string, args?: readonly string[]): Promise<string>;
  /** Resolves once it is ready; a signer takes the place of the other version's, which has to be stopped. */
  start(version: Version, what: Service | Party): Promise<void>;
  stop(version: Version, what: Service | Party): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts what both versions share; none of their processes, and no schema.
 * @param temporalBinary path of the `temporal` program
 */
export async function openTwoVersions({
  oldDir,
  temporalBinary,
}: {
  oldDir: string;
  temporalBinary: string;
}): Promise<TwoVersions> {
  const dirs: Readonly<Record<Version, string>> = {
    old: oldDir,
    new: fileURLToPath(new URL('../..', import.meta.url)),
  };
  const home = mkdtempSync(join(tmpdir(), 'purser-upgrade-'));
  chmodSync(home, 0o711);
  const file = (...names: string[]) => join(home, ...names);
  const logFile = (name: string) => file('logs', `${name}.log`);
  const guard = startGuard();
  const [postgresPort, temporalPort, rpcPort, oldPort, newPort, ...signerPorts] = (await Promise.all(
    Array.from({ length: 8 }, freePort),
  )) as [number, number, number, number, number, number, number, number];
  const apiPorts: Readonly<Record<Version, number>> = { old: oldPort, new: newPort };
  const [keys, chain, postgres, temporal] = await Promise.all([
    prepareKeys(file),
    startAnvil(guard, { port: rpcPort, logFile: logFile('chain') }),
    startPostgres(guard, { dir: file('postgres'), port: postgresPort, logFile: logFile('postgres') }),
    startTemporal(guard, {
      ...{ binary: temporalBinary, port: temporalPort },
      ...{ dbFile: file('temporal.db'), logFile: logFile('temporal') },
    }),
  ]);
  const token = await deployToken({ rpcUrl: chain.rpcUrl });
  const faucet = await startFaucet(token);
  const mailbox = await startMailbox({ dir: file('mail'), smtpPort: 0, httpPort: 0 });
  const env: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    PURSER_ENV: 'sandbox',
    PURSER_SPARE_KEYS: '0',
    DATABASE_URL: postgres.appUrl,
    TEMPORAL_ADDRESS: temporal.address,
    PURSER_CHAINS: LOCAL_CHAIN,
    PURSER_EXTRA_TOKENS: `${LOCAL_CHAIN}/erc20:${token.address}=USDC/6/USD Coin/2`,
    PURSER_RPC_EIP155_31337: chain.rpcUrl,
    PURSER_POLICY_KEY_FILE: keys.policy.identityFile,
    PURSER_COORDINATOR_KEY_FILE: keys.coordinator.identityFile,
    PURSER_SIGNERS: JSON.stringify(signerEndpoints(keys, signerPorts as [number, number, number])),
    PURSER_FAUCET_URL: faucet.url,
    PURSER_SMTP_URL: mailbox.smtpUrl,
    PURSER_MAIL_FROM: 'Purser <purser@example.com>',
    PURSER_TOKEN_KEYS_FILE: keys.tokensFile,
    PURSER_PUBLIC_URL: `http://${LOOPBACK}:${oldPort}`,
    PURSER_LOOPBACK_TARGETS: 'on',
    PURSER_WEBHOOK_KEYS_FILE: keys.webhooks.keysFile,
    PURSER_WEBHOOK_PUBLIC_KEY_FILE: keys.webhooks.publicKeyFile,
  };
  const bundleOf = (version: Version) => file(`${version}-workflows.js`);
  const running = new Map<string, Child>();

  const runProgram = async (version: Version, program: string, args: readonly string[] = []) => {
    const { stdout } = await run(process.execPath, [join(dirs[version], program), ...args], {
      env: { ...env, DATABASE_OWNER_URL: postgres.ownerUrl },
    });
    return stdout;
  };
  /** Waits until it says that it is ready. */
  async function startWorker(version: Version): Promise<Child> {
    if (!existsSync(bundleOf(version))) await runProgram(version, 'worker/bundle.ts', [bundleOf(version)]);
    const log = logFile(`${version}-worker`);
    const readies = () => (existsSync(log) ? readFileSync(log, 'utf8').split('worker is ready').length : 1);
    const before = readies();
    const child = await startProcess(guard, {
      name: `The ${version} worker`,
      command: process.execPath,
      args: [join(dirs[version], 'worker', 'main.ts')],
      env: { ...env, PURSER_WORKFLOW_BUNDLE: bundleOf(version) },
      logFile: log,
      stopTimeoutMs: workerStopMs,
    });
    await waitUntilReady(child, {
      timeoutMs: workerStartMs,
      check: async () => {
        if (readies() === before) throw new Error('it has not said so yet');
      },
    });
    return child;
  }
  const startOne = (version: Version, what: Service | Party): Promise<Child> => {
    const code = dirs[version];
    if (what === 'worker') return startWorker(version);
    const log = logFile(typeof what === 'number' ? `signer-${what}` : `${version}-${what}`);
    if (what === 'api') {
      const port = apiPorts[version];
      return startApi(guard, { env: { ...env, PURSER_PORT: String(port) }, port, code, logFile: log });
    }
    const dataDir = file('signers', String(what), 'data');
    return startSigner(guard, {
      ...{ party: what, port: signerPorts[what - 1]!, keys, dataDir, code },
      ...{ logFile: log, env: { PATH: process.env.PATH } },
    });
  };
  const nameOf = (version: Version, what: Service | Party) => `${version} ${what}`;
  const take = (version: Version, what: Service | Party): Child => {
    const name = nameOf(version, what);
    const child = running.get(name)!;
    running.delete(name);
    return child;
  };
  return {
    rpcUrl: chain.rpcUrl,
    usdcAddress: token.address,
    databaseUrl: postgres.appUrl,
    temporalAddress: temporal.address,
    apiUrl: (version) => `http://${LOOPBACK}:${apiPorts[version]}`,
    run: runProgram,
    async start(version, what) {
      running.set(nameOf(version, what), await startOne(version, what));
    },
    stop: (version, what) => take(version, what).stop(),
    async close() {
      await Promise.all([...running.values()].map((child) => child.stop()));
      await temporal.stop();
      await postgres.stop();
      await mailbox.stop();
      await faucet.stop();
      await chain.stop();
      await guard.stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
