import { Connection } from '@temporalio/client';
import { redirectUriOf } from '../api/routes/sign-in.ts';
import { migrate } from '../shared/db/migrate.ts';
import type { Party } from '../signer/client.ts';
import { APPROVER_EMAIL, ensureAccount, keepPeople, OWNER_EMAIL } from './account.ts';
import { ensureAccountKey } from './account-key.ts';
import { LOCAL_CHAIN, startAnvil } from './anvil.ts';
import { type BitcoinChain, chainsEnv, startBitcoinChain } from './bitcoin-chain.ts';
import { REGTEST_CHAIN } from './btcd.ts';
import { btcdBinary } from './btcd-binary.ts';
import { startFaucet } from './faucet.ts';
import type { DevFacts, Home } from './home.ts';
import { startMailbox } from './mailbox.ts';
import { LOOPBACK } from './ports.ts';
import type { StackPorts } from './ports-of-stack.ts';
import { startPostgres } from './postgres.ts';
import type { Guard } from './process.ts';
import type { Progress } from './progress.ts';
import { startProvider } from './provider.ts';
import { keepProviderKeys } from './provider-keys.ts';
import { requireOk, startApi, startWorker } from './services.ts';
import { prepareKeys, signerEndpoints, startSigner } from './signers.ts';
import { type Supervised, supervise } from './supervise.ts';
import { registerSearchAttributes, startTemporal } from './temporal.ts';
import { temporalBinary } from './temporal-binary.ts';
import { deployToken, type LocalToken } from './token.ts';

const PARTIES: readonly Party[] = [1, 2, 3];
/** Each process serves its metrics somewhere: its log says where. */
const anyPort = '0';
const MAIL_FROM = 'Purser <purser@example.com>';

/** What the starting functions share. */
export interface StackContext {
  env: NodeJS.ProcessEnv;
  home: Home;
  ports: StackPorts;
  guard: Guard;
  progress: Progress;
  /** Says that everything ends: nothing is started again. */
  signal: AbortSignal;
  /** Worker processes, each for all queues; default 1. */
  workers?: number;
}

interface Part {
  stop(): Promise<void>;
}

/** A stack that runs: its facts, and how to stop it in order. */
export interface Stack {
  facts: DevFacts;
  stop(): Promise<void>;
}

/**
 * Brings up everything: first what others need, side by side; then schema and account; then worker and API; then the
 * account's key. Each part is started again when it dies. When this throws, the caller stops the guard, which stops
 * whatever was started.
 */
export async function startStack(context: StackContext): Promise<Stack> {
  const { env, home, ports, progress } = context;
  const [database, temporal, chain, bitcoin, signers] = await Promise.all([
    progress.step('Postgres', () => provideDatabase(context)),
    progress.step('Temporal', (detail) => provideTemporal(context, detail)),
    progress.step('local chain with test USDC', () => provideChain(context)),
    ports.bitcoin === undefined
      ? undefined
      : progress.step('local Bitcoin network', (detail) => provideBitcoin(context, { port: ports.bitcoin!, detail })),
    progress.step('three signers', () => provideSigners(context)),
  ]);
  const faucet = await startFaucet(chain.token, bitcoin);
  await progress.step('database schema', () => migrate({ databaseUrl: database.ownerUrl, log: progress.line }));
  const before = home.readFacts();
  const known = before && { accountId: before.account_id, apiKey: before.api_key };
  const account = await ensureAccount({
    databaseUrl: database.appUrl,
    known,
    ownerKey: signers.keys.owner.publicKey,
  });
  const people = await progress.step('mailbox', () => provideMailbox(context));
  const baseUrl = `http://${LOOPBACK}:${ports.api}`;
  const provider = await progress.step('identity provider', () => provideProvider(context, { baseUrl }));
  await keepPeople({ databaseUrl: database.appUrl, from: before?.provider_url, to: provider.issuer });

  const extraTokens = [`${LOCAL_CHAIN}/erc20:${chain.token.address}=USDC/6/USD Coin/2`, env.PURSER_EXTRA_TOKENS]
    .filter(Boolean)
    .join(',');
  // For `npm run signers`.
  home.write('signers.json', {
    signers: signers.endpoints,
    operator_key_file: signers.keys.operator.identityFile,
    extra_tokens: extraTokens,
  });
  const serviceEnv: NodeJS.ProcessEnv = {
    ...env,
    PURSER_METRICS_PORT: anyPort,
    PURSER_ENV: 'sandbox',
    PURSER_PORT: String(ports.api),
    DATABASE_URL: database.appUrl,
    TEMPORAL_ADDRESS: temporal.address,
    ...chainsEnv({ chains: env.PURSER_CHAINS ?? LOCAL_CHAIN, bitcoin }),
    PURSER_EXTRA_TOKENS: extraTokens,
    PURSER_RPC_EIP155_31337: chain.rpcUrl,
    PURSER_POLICY_KEY_FILE: signers.keys.policy.identityFile,
    PURSER_COORDINATOR_KEY_FILE: signers.keys.coordinator.identityFile,
    PURSER_SIGNERS: JSON.stringify(signers.endpoints),
    PURSER_FAUCET_URL: faucet.url,
    PURSER_SMTP_URL: people.smtpUrl,
    PURSER_MAIL_FROM: MAIL_FROM,
    PURSER_PUBLIC_URL: baseUrl,
    PURSER_TOKEN_KEYS_FILE: signers.keys.tokensFile,
    PURSER_OIDC_ISSUER: provider.issuer,
    PURSER_OIDC_CLIENT_ID: provider.clientId,
    PURSER_OIDC_CLIENT_SECRET: provider.clientSecret,
    PURSER_LOOPBACK_TARGETS: 'on',
    PURSER_WEBHOOK_KEYS_FILE: signers.keys.webhooks.keysFile,
    PURSER_WEBHOOK_PUBLIC_KEY_FILE: signers.keys.webhooks.publicKeyFile,
  };
  const workerNames = Array.from({ length: context.workers ?? 1 }, (_, index) =>
    index === 0 ? 'worker' : `worker-${index + 1}`,
  );
  const [workers, api] = await Promise.all([
    progress.step('worker', () =>
      Promise.all(
        workerNames.map((name) =>
          keep(context, `The ${name}`, () =>
            startWorker(context.guard, { env: serviceEnv, logFile: log(context, name) }),
          ),
        ),
      ),
    ),
    progress.step('API', () =>
      keep(context, 'The API', () =>
        startApi(context.guard, { env: serviceEnv, logFile: log(context, 'api'), port: ports.api }),
      ),
    ),
  ]);
  await progress.step('account key, made by the three signers', async () => {
    const { accountId } = account;
    await ensureAccountKey({
      temporalAddress: temporal.address,
      namespace: env.TEMPORAL_NAMESPACE ?? 'default',
      accountId,
    });
    await requireOk(`${baseUrl}/readyz`);
  });

  const facts: DevFacts = {
    base_url: baseUrl,
    api_key: account.apiKey,
    account_id: account.accountId,
    temporal_ui: temporal.uiUrl,
    temporal_address: temporal.address,
    rpc_url: chain.rpcUrl,
    chain: LOCAL_CHAIN,
    usdc_address: chain.token.address,
    ...(bitcoin && { bitcoin_url: bitcoin.url, bitcoin_chain: REGTEST_CHAIN }),
    database_url: database.appUrl,
    signer_urls: signers.endpoints.map((signer) => signer.url),
    mail_url: people.url,
    smtp_url: people.smtpUrl,
    provider_url: provider.issuer,
  };
  home.writeFacts(facts);
  return {
    facts,
    /** The askers before the asked: nobody sees a dependency go away. */
    async stop() {
      await api.stop();
      await Promise.all(workers.map((worker) => worker.stop()));
      await people.stop();
      await provider.stop();
      await Promise.all(signers.parts.map((signer) => signer.stop()));
      await temporal.stop();
      await database.stop();
      await faucet.stop();
      await bitcoin?.stop();
      await chain.stop();
    },
  };
}

const log = ({ home }: StackContext, name: string) => home.file('logs', `${name}.log`);

function keep<T extends Part & { exited: Promise<string> }>(
  context: StackContext,
  name: string,
  start: () => Promise<T>,
): Promise<Supervised<T>> {
  return supervise(start, { name, report: context.progress.line, signal: context.signal });
}

/** The database of `DATABASE_URL` (schema changes as `DATABASE_OWNER_URL`, else the same), or one of our own. */
async function provideDatabase(context: StackContext): Promise<Part & { appUrl: string; ownerUrl: string }> {
  const { env, guard, home, ports } = context;
  if (ports.postgres === undefined) {
    const appUrl = env.DATABASE_URL!;
    return { appUrl, ownerUrl: env.DATABASE_OWNER_URL ?? appUrl, stop: async () => {} };
  }
  const options = { dir: home.file('postgres'), port: ports.postgres, logFile: log(context, 'postgres') };
  const part = await keep(context, 'Postgres', () => startPostgres(guard, options));
  const { appUrl, ownerUrl } = part.current();
  return { appUrl, ownerUrl, stop: part.stop };
}

/** The server of `TEMPORAL_ADDRESS`, or one of our own. */
async function provideTemporal(
  context: StackContext,
  detail: (text: string) => void,
): Promise<Part & { address: string; uiUrl: string }> {
  const { env, guard, home, ports } = context;
  if (ports.temporal === undefined) {
    const address = env.TEMPORAL_ADDRESS!;
    const connection = await Connection.connect({ address });
    await registerSearchAttributes(connection, { namespace: env.TEMPORAL_NAMESPACE ?? 'default' });
    await connection.close();
    return { address, uiUrl: env.TEMPORAL_UI_URL ?? '', stop: async () => {} };
  }
  const binary = await temporalBinary(env, { onProgress: detail });
  const options = {
    binary,
    port: ports.temporal,
    dbFile: home.file('temporal.db'),
    logFile: log(context, 'temporal'),
    ...(ports.temporalUi !== undefined && { uiPort: ports.temporalUi }),
  };
  const part = await keep(context, 'Temporal', () => startTemporal(guard, options));
  const { address, uiUrl = '' } = part.current();
  return { address, uiUrl, stop: part.stop };
}

async function provideChain(context: StackContext): Promise<Part & { rpcUrl: string; token: LocalToken }> {
  const { guard, home, ports } = context;
  const options = { port: ports.rpc, dir: home.file('chain'), logFile: log(context, 'chain') };
  const part = await keep(context, 'The local chain', () => startAnvil(guard, options));
  const { rpcUrl } = part.current();
  return { rpcUrl, token: await deployToken({ rpcUrl }), stop: part.stop };
}

async function provideBitcoin(
  context: StackContext,
  { port, detail }: { port: number; detail: (text: string) => void },
): Promise<BitcoinChain> {
  const { env, guard, home } = context;
  return startBitcoinChain(guard, {
    binary: await btcdBinary(env, { onProgress: detail }),
    dir: home.file('bitcoin'),
    port,
    logFile: log(context, 'bitcoin'),
    keep: (start) => keep(context, 'The Bitcoin node', start),
  });
}

async function provideSigners(context: StackContext) {
  const { env, guard, home, ports } = context;
  const keys = await prepareKeys(home.file);
  const parts = await Promise.all(
    PARTIES.map((party) =>
      keep(context, `Signer ${party}`, () =>
        startSigner(guard, {
          party,
          port: ports.signers[party - 1]!,
          keys,
          dataDir: home.file('signers', String(party), 'data'),
          logFile: log(context, `signer-${party}`),
          env: { ...env, PURSER_METRICS_PORT: anyPort },
        }),
      ),
    ),
  );
  const endpoints = signerEndpoints(keys, ports.signers);
  return { keys, endpoints, parts };
}

/** Where everybody's mail goes. */
function provideMailbox({ home, ports }: StackContext) {
  return startMailbox({ dir: home.file('mail'), smtpPort: ports.smtp, httpPort: ports.mail });
}

/** Who signs people in. Its keys stay, so that it is the same one after a restart. */
async function provideProvider({ home, ports }: StackContext, { baseUrl }: { baseUrl: string }) {
  const people = [
    { sub: 'owner', email: OWNER_EMAIL, email_verified: true, name: 'Owner' },
    { sub: 'approver', email: APPROVER_EMAIL, email_verified: true, name: 'Approver' },
  ];
  return startProvider({
    port: ports.provider,
    keys: await keepProviderKeys(home.file('keys', 'provider.json')),
    users: () => people,
    clientId: 'purser',
    redirectUri: redirectUriOf({ publicUrl: baseUrl }),
  });
}
