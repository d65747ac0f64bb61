import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ensureAccount } from '../../dev/account.ts';
import { ensureAccountKey } from '../../dev/account-key.ts';
import { LOCAL_CHAIN, startAnvil } from '../../dev/anvil.ts';
import { type BitcoinNode, REGTEST_CHAIN } from '../../dev/btcd.ts';
import { startFaucet } from '../../dev/faucet.ts';
import { startMailbox } from '../../dev/mailbox.ts';
import { freePort, LOOPBACK } from '../../dev/ports.ts';
import { startPostgres } from '../../dev/postgres.ts';
import { startGuard, startProcess } from '../../dev/process.ts';
import { requireOk, startApi } from '../../dev/services.ts';
import { isAlive } from '../../dev/signals.ts';
import { prepareKeys, type StackKeys, signerEndpoints, startSigner } from '../../dev/signers.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { temporalBinary } from '../../dev/temporal-binary.ts';
import { deployToken } from '../../dev/token.ts';
import { migrate } from '../../shared/db/migrate.ts';
import { PARTIES } from '../../signer/parties.ts';
import { makeWorkflowBundle } from '../../worker/bundle.ts';
import { BUNDLE_OF_RUN } from './bundle-of-run.ts';
import { readPlan, writePlan } from './crash-plan.ts';
import { readDatabaseAsText } from './database-text.ts';
import { openShares } from './open-shares.ts';
import { type OwnBitcoin, openBitcoin, planBtcd } from './own-bitcoin.ts';
import { notePassword, noteSecret, noteSecretBytes, noteSecretFile, refuseSecretsIn } from './secrets.ts';
import { openSignIn } from './sign-in.ts';
import type { TronChainDouble } from './tron-chain-double.ts';
import { startTronNodeDouble, type TronNodeDouble } from './tron-node-double.ts';

export type PartName =
  | 'postgres'
  | 'temporal'
  | 'signer-1'
  | 'signer-2'
  | 'signer-3'
  | 'api'
  | 'api-2'
  | 'worker'
  | 'worker-2'
  | 'btcd';

/** CAIP-2 name of Tron's test network. */
export const NILE_CHAIN = 'tron:0xcd8690dc';
/** Before a part that failed is started again. */
const fallPauseMs = 1_000;
const workerStopTimeoutMs = 40_000;

interface Runnable {
  readonly pid: number;
  readonly exited: Promise<string>;
  /** How it ended, where it tells: its id may be somebody else's since then. */
  exit?(): string | undefined;
  stop(): Promise<void>;
}

/** A whole installation of one test's own, whose processes may be killed and come back at the same address. */
export interface OwnStack {
  readonly baseUrl: string;
  /** Of every api process; `baseUrl` is the first one. */
  readonly apiUrls: readonly string[];
  readonly apiKey: string;
  /** Where each process serves its metrics; empty unless that was asked for. */
  readonly metricsUrls: Readonly<Partial<Record<PartName, string>>>;
  readonly rpcUrl: string;
  readonly usdcAddress: `0x${string}`;
  /** Only where it was asked for. */
  readonly bitcoin: OwnBitcoin | undefined;
  readonly tron: TronNodeDouble | undefined;
  readonly databaseUrl: string;
  readonly temporalAddress: string;
  /** File that the crashing worker reads; see crash-plan.ts. */
  readonly planFile: string;
  readonly logDir: string;
  /** As `PURSER_HOME` of npm start: `signers.json` for `npm run signers`, and the owner's key in `keys/owner.json`. */
  readonly home: string;
  /** Inbox of everybody; `GET /api/mails` lists what it holds. */
  readonly mailUrl: string;
  /** An access token of the person with this e-mail address, an owner of the account; by default the stack's. */
  token(email: string, o?: { accountId?: string }): Promise<string>;
  pid(name: PartName): number;
  /** Number of times that the part had to be started again. */
  restarts(name: PartName): number;
  /** Every end of a part that nobody had halted: by a kill, or by itself. */
  readonly deaths: readonly { readonly part: PartName; readonly how: string }[];
  /** Ends it for good, until `start`. */
  halt(name: PartName): Promise<void>;
  start(name: PartName): Promise<void>;
  /** @param keepFiles leave data and logs where they are */
  stop(o?: { keepFiles?: boolean }): Promise<void>;
}

export interface OwnStackOptions {
  /** Processes that serve all queues. */
  readonly workers?: 1 | 2;
  /** Processes that serve the API. */
  readonly apis?: 1 | 2;
  /** A Bitcoin chain besides; blocks are made by whoever asks for it. */
  readonly bitcoin?: boolean;
  /** A Tron chain (Nile) besides, behind a double of a node. */
  readonly tron?: TronChainDouble;
  /** Whether every process serves its metrics. */
  readonly metrics?: boolean;
  /** Whether a POST waits until it is decided, however busy the machine; else for the default of 2 s. */
  readonly decides?: boolean;
  /** What the api and the workers find in their environment besides, or in place of, what they are given here. */
  readonly env?: NodeJS.ProcessEnv;
  /** The RPC URLs that the workers are given in place of the chain's own. */
  readonly endpoints?: (chainUrl: string) => Promise<readonly string[]>;
}

/** Starts everything as `npm start` does, on disk and on free ports. Whatever dies is started again at once. */
export async function startOwnStack({
  workers = 1,
  apis = 1,
  bitcoin: wantsBitcoin = false,
  tron: tronChain,
  metrics: wantsMetrics = false,
  decides = false,
  env: extraEnv = {},
  endpoints = async (chainUrl) => [chainUrl],
}: OwnStackOptions = {}): Promise<OwnStack> {
  const home = mkdtempSync(join(tmpdir(), 'purser-stack-'));
  chmodSync(home, 0o711);
  const file = (...names: string[]) => join(home, ...names);
  const logFile = (name: string) => file('logs', `${name}.log`);
  const planFile = file('plan.json');
  writePlan(planFile, { victim: 'nobody', left: [] });
  const guard = startGuard();
  const ports = await Promise.all(Array.from({ length: 8 }, freePort));
  const [postgresPort, temporalPort, rpcPort, apiPort, secondApiPort, ...signerPorts] = ports as [
    number,
    number,
    number,
    number,
    number,
    ...number[],
  ];
  const keys = await prepareKeys(file);
  const metricsPorts = await choosePorts(wantsMetrics ? measured : []);
  const metricsEnv = (name: PartName) => (metricsPorts[name] ? { PURSER_METRICS_PORT: `${metricsPorts[name]}` } : {});
  const parts = createParts(planFile);
  const temporalAddress = `${LOOPBACK}:${temporalPort}`;

  const startChain = async () => {
    const chain = await startAnvil(guard, { port: rpcPort, logFile: logFile('chain') });
    const token = await deployToken({ rpcUrl: chain.rpcUrl });
    return { chain, token, faucet: await startFaucet(token) };
  };
  const startBitcoin = async () => {
    if (!wantsBitcoin) return undefined;
    await parts.add('btcd', await planBtcd(guard, { dir: file('btcd'), logFile: logFile('btcd') }));
    return openBitcoin(() => requireAlive(parts.current('btcd') as BitcoinNode));
  };
  const startDatabase = async () => {
    await parts.add('postgres', () =>
      startPostgres(guard, { dir: file('postgres'), port: postgresPort, logFile: logFile('postgres') }),
    );
    const urls = parts.current('postgres') as Awaited<ReturnType<typeof startPostgres>>;
    await migrate({ databaseUrl: urls.ownerUrl });
    return urls;
  };
  const startTemporalServer = async () => {
    const binary = await temporalBinary(process.env);
    const [dbFile, log] = [file('temporal.db'), logFile('temporal')];
    await parts.add('temporal', () => startTemporal(guard, { binary, port: temporalPort, dbFile, logFile: log }));
  };
  const startSigners = () =>
    Promise.all(
      PARTIES.map((party) => {
        const [dataDir, log] = [file('signers', `${party}`, 'data'), logFile(`signer-${party}`)];
        const env = { ...process.env, PURSER_LOG_LEVEL: 'trace', ...metricsEnv(`signer-${party}`) };
        const port = signerPorts[party - 1]!;
        return parts.add(`signer-${party}`, () =>
          startSigner(guard, { party, port, keys, dataDir, logFile: log, env }),
        );
      }),
    );
  // What does not need each other comes up beside each other.
  const [{ chain, token, faucet }, bitcoin, { appUrl, ownerUrl }, bundleFile] = await Promise.all([
    startChain(),
    startBitcoin(),
    startDatabase(),
    workflowBundle(file('workflows.js')),
    startTemporalServer(),
    startSigners(),
  ]);
  const tron = tronChain && (await startTronNodeDouble({ share: tronChain }));
  const baseUrl = `http://${LOOPBACK}:${apiPort}`;
  const { accountId, apiKey } = await ensureAccount({
    databaseUrl: appUrl,
    known: undefined,
    ownerKey: keys.owner.publicKey,
  });
  const endpointsOfSigners = signerEndpoints(keys, signerPorts as [number, number, number]);
  const forOperators = { signers: endpointsOfSigners, operator_key_file: keys.operator.identityFile };
  writeFileSync(file('signers.json'), JSON.stringify(forOperators));
  const people = openSignIn({ databaseUrl: appUrl, keysFile: keys.tokensFile, issuer: baseUrl });
  const mailbox = await startMailbox({ dir: file('mail'), smtpPort: 0, httpPort: 0 });
  noteSecret('the first API key', apiKey);
  for (const url of [appUrl, ownerUrl]) notePassword('a password of the database', url);
  for (const path of secretFilesOf(keys)) noteSecretFile(path);
  const env = {
    PATH: process.env.PATH,
    PURSER_ENV: 'sandbox',
    // Everything that might be written: it is searched for secrets in the end.
    PURSER_LOG_LEVEL: 'trace',
    PURSER_PORT: String(apiPort),
    PURSER_SPARE_KEYS: '0',
    DATABASE_URL: appUrl,
    TEMPORAL_ADDRESS: temporalAddress,
    PURSER_CHAINS: [LOCAL_CHAIN, ...(bitcoin ? [REGTEST_CHAIN] : []), ...(tron ? [NILE_CHAIN] : [])].join(','),
    PURSER_EXTRA_TOKENS: `${LOCAL_CHAIN}/erc20:${token.address}=USDC/6/USD Coin/2`,
    PURSER_RPC_EIP155_31337: (await endpoints(chain.rpcUrl)).join(','),
    ...(bitcoin && { PURSER_RPC_BIP122_0F9188F13CB7B2C71F2A335E3A4FC328: bitcoin.url }),
    ...(tron && { PURSER_RPC_TRON_0XCD8690DC: tron.url }),
    PURSER_POLICY_KEY_FILE: keys.policy.identityFile,
    PURSER_COORDINATOR_KEY_FILE: keys.coordinator.identityFile,
    PURSER_SIGNERS: JSON.stringify(endpointsOfSigners),
    PURSER_FAUCET_URL: faucet.url,
    PURSER_SMTP_URL: mailbox.smtpUrl,
    PURSER_MAIL_FROM: 'Purser <purser@example.com>',
    PURSER_PUBLIC_URL: baseUrl,
    PURSER_TOKEN_KEYS_FILE: keys.tokensFile,
    PURSER_LOOPBACK_TARGETS: 'on',
    PURSER_WEBHOOK_KEYS_FILE: keys.webhooks.keysFile,
    PURSER_WEBHOOK_PUBLIC_KEY_FILE: keys.webhooks.publicKeyFile,
    PURSER_TEST_CRASH_PLAN: planFile,
    PURSER_WORKFLOW_BUNDLE: bundleFile,
    ...(decides && { PURSER_DECISION_WAIT_MS: '30000' }),
    ...extraEnv,
  };
  const worker = (name: 'worker' | 'worker-2') => {
    const args = [fileURLToPath(new URL('./crashing-worker.ts', import.meta.url))];
    return startProcess(guard, {
      name,
      command: process.execPath,
      args,
      // It lets running activities end for 30 s.
      stopTimeoutMs: workerStopTimeoutMs,
      env: { ...env, ...metricsEnv(name) },
      logFile: logFile(name),
    });
  };
  const api = (name: 'api' | 'api-2', port: number) =>
    startApi(guard, { env: { ...env, ...metricsEnv(name), PURSER_PORT: String(port) }, port, logFile: logFile(name) });
  await Promise.all([
    parts.add('worker', () => worker('worker')),
    workers === 2 && parts.add('worker-2', () => worker('worker-2')),
    parts.add('api', () => api('api', apiPort)),
    apis === 2 && parts.add('api-2', () => api('api-2', secondApiPort)),
  ]);
  await ensureAccountKey({ temporalAddress, namespace: 'default', accountId });
  await requireOk(`${baseUrl}/readyz`);
  return {
    apiUrls: [apiPort, secondApiPort].slice(0, apis).map((port) => `http://${LOOPBACK}:${port}`),
    ...{
      baseUrl,
      apiKey,
      metricsUrls: Object.fromEntries(
        Object.entries(metricsPorts).map(([name, port]) => [name, `http://${LOOPBACK}:${port}/metrics`]),
      ),
      rpcUrl: chain.rpcUrl,
      usdcAddress: token.address,
      bitcoin,
      tron,
      databaseUrl: appUrl,
      temporalAddress,
      planFile,
    },
    logDir: file('logs'),
    home,
    mailUrl: mailbox.url,
    async token(email, o) {
      const { token } = await people.signIn({ accountId, email, ...o });
      noteSecret('an access token', token);
      return token;
    },
    pid: (name) => parts.current(name).pid,
    restarts: parts.restarts,
    deaths: parts.deaths,
    halt: parts.halt,
    start: parts.start,
    async stop({ keepFiles = false } = {}) {
      await noteLinks(mailbox.url);
      const database = await readDatabaseAsText(ownerUrl);
      await parts.stop();
      await bitcoin?.stop();
      await tron?.stop();
      await people.close();
      await mailbox.stop();
      await faucet.stop();
      await chain.stop();
      await guard.stop();
      try {
        writeFileSync(file('database.txt'), database);
        noteShares(keys, file);
        const searched = ['logs', 'temporal.db', 'database.txt', 'backups'].map((name) => file(name));
        const stores = PARTIES.map((party) => file('signers', `${party}`, 'data'));
        refuseSecretsIn([...searched.filter((path) => existsSync(path)), ...stores]);
      } finally {
        if (!keepFiles) rmSync(home, { recursive: true, force: true });
      }
    },
  };
}

/** Parts that may serve metrics. */
const measured: readonly PartName[] = ['api', 'api-2', 'worker', 'worker-2', 'signer-1', 'signer-2', 'signer-3'];

async function choosePorts(names: readonly PartName[]): Promise<Partial<Record<PartName, number>>> {
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await freePort()])));
}

/**
 * The file in which all workflow code is: that of the whole run of tests where there is one, else made at `path`. A worker
 * that makes its bundle by itself comes back two seconds later.
 */
async function workflowBundle(path: string): Promise<string> {
  const made = process.env[BUNDLE_OF_RUN];
  if (made && existsSync(made)) return made;
  writeFileSync(path, (await makeWorkflowBundle()).code);
  return path;
}

/** A node that was killed has its chain back only once the next one is there. @throws Error until then */
function requireAlive(node: BitcoinNode): BitcoinNode {
  if (!isAlive(node.pid)) throw new Error('The Bitcoin node is being started again.');
  return node;
}

function secretFilesOf({ coordinator, policy, operator, owner, signers, webhooks, tokensFile }: StackKeys): string[] {
  const ofSigners = Object.values(signers).flatMap(({ identityFile, kekFile }) => [identityFile, kekFile]);
  const roles = [coordinator, policy, operator, owner].map(({ identityFile }) => identityFile);
  return [...roles, webhooks.keysFile, tokensFile, ...ofSigners];
}

/** What the three signers hold, once they have ended. */
function noteShares({ signers }: StackKeys, file: (...names: string[]) => string): void {
  for (const party of PARTIES) {
    const dataDir = file('signers', `${party}`, 'data');
    for (const { keyId, epoch, share, isPublic } of openShares({ party, dataDir, kekFile: signers[party].kekFile }))
      noteSecretBytes(`the share of signer ${party} of key ${keyId}, epoch ${epoch}`, share, isPublic);
  }
}

/** Whoever has the end of a link can decide. */
async function noteLinks(mailUrl: string): Promise<void> {
  const text = await (await fetch(`${mailUrl}/api/mails`)).text();
  for (const [, token] of text.matchAll(/\/approve\/([\w-]{43})/g)) noteSecret('the end of a link', token!);
}

/** Who uses others ends before them. */
const stopOrder: readonly (readonly PartName[])[] = [
  ['api', 'api-2', 'worker', 'worker-2'],
  ['signer-1', 'signer-2', 'signer-3', 'temporal', 'btcd'],
  ['postgres'],
];
/** An orderly end of these takes seconds, and is looked at where it matters. */
const killedInTheEnd: ReadonlySet<PartName> = new Set(['api', 'api-2', 'worker', 'worker-2']);

/** Keeps parts running, and tells the crash plan the process id of its victim whenever that is a new one. */
function createParts(planFile: string) {
  interface Part {
    readonly start: () => Promise<Runnable>;
    current: Runnable;
    /** While it is started again after a death. */
    coming: Promise<void> | undefined;
    halted: boolean;
    restarts: number;
  }
  const parts = new Map<PartName, Part>();
  const deaths: { part: PartName; how: string }[] = [];
  let stopping = false;

  const tellPlan = (name: PartName, pid: number) => {
    const plan = readPlan(planFile);
    if (plan.victim === name) writePlan(planFile, { ...plan, pid });
  };
  const keep = (name: PartName, part: Part) => {
    void part.current.exited.then((how) => {
      if (stopping || part.halted) return;
      deaths.push({ part: name, how });
      part.restarts += 1;
      part.coming = comeBack(name, part, how);
    });
  };
  const comeBack = async (name: PartName, part: Part, how: string) => {
    // What was killed or stopped comes back at once; what fails would only take time from the others.
    if (/^exit code [1-9]/.test(how)) await delay(fallPauseMs);
    if (stopping || part.halted) return;
    part.current = await part.start();
    tellPlan(name, part.current.pid);
    keep(name, part);
  };
  /** Also what is just being started again: nobody would end it later. */
  const end = async (part: Part, { atOnce = false } = {}) => {
    await part.coming?.catch(() => {});
    if (atOnce && !part.current.exit?.()) process.kill(part.current.pid, 'SIGKILL');
    await part.current.stop();
  };
  return {
    deaths,
    current: (name: PartName) => parts.get(name)!.current,
    restarts: (name: PartName) => parts.get(name)!.restarts,
    async add(name: PartName, start: () => Promise<Runnable>) {
      const part: Part = { start, current: await start(), coming: undefined, halted: false, restarts: 0 };
      parts.set(name, part);
      keep(name, part);
    },
    async halt(name: PartName) {
      const part = parts.get(name)!;
      part.halted = true;
      await end(part);
    },
    async start(name: PartName) {
      const part = parts.get(name)!;
      part.current = await part.start();
      part.halted = false;
      keep(name, part);
    },
    async stop() {
      stopping = true;
      const endIfAny = async (name: PartName) => {
        const part = parts.get(name);
        if (part) await end(part, { atOnce: killedInTheEnd.has(name) });
      };
      for (const names of stopOrder) await Promise.all(names.map(endIfAny));
    },
  };
}
