import { inspect } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { createRegistry } from '../shared/chain/registry.ts';
import { type ApiConfig, apiConfig } from '../shared/config.ts';
import { createPool } from '../shared/db/pool.ts';
import { withoutSecrets } from '../shared/domain/without-secrets.ts';
import { createHttpGuard } from '../shared/http-guard.ts';
import { createInstallation, requireInstallation } from '../shared/installation.ts';
import { createLogger, type Logger } from '../shared/log.ts';
import { openMetrics } from '../shared/metrics/open-metrics.ts';
import { measurePool } from '../shared/metrics/pool.ts';
import { createPersistenceStore } from '../shared/persistence-store.ts';
import { ConfigError } from '../shared/read-env.ts';
import { readTargetCa } from '../shared/read-target-ca.ts';
import { createStopSignal } from '../shared/stop-signal.ts';
import { tellRequest } from '../shared/tell-request.ts';
import { openTracing } from '../shared/tracing/open-tracing.ts';
import { unknownVariables } from '../shared/unknown-variables.ts';
import { readWebhookPublicKey } from '../shared/webhook-keys.ts';
import { createSecretSealer } from '../shared/webhook-secrets.ts';
import { createApp } from './app.ts';
import { createRequestMeasures } from './middleware/measure-requests.ts';
import { createProviderClient } from './oidc/provider-client.ts';
import { createFundWallet } from './operations/fund-wallet.ts';
import { redirectUriOf, type SignInSettings } from './routes/sign-in.ts';
import { startServer } from './server.ts';
import { createTemporalGateway } from './temporal-gateway.ts';
import { createAccessTokens } from './tokens/access-tokens.ts';
import { watchTokenKeys } from './tokens/watch-token-keys.ts';
import { createProbe } from './x402/probe.ts';

/** The api process: everything it depends on is made here. It starts while Postgres or Temporal are down, and recovers by itself. */
async function main(config: ApiConfig): Promise<void> {
  const log = createLogger({ process: 'api', level: config.logLevel });
  for (const sentence of unknownVariables(process.env)) log.warn(sentence);
  const stopping = createStopSignal({ log });
  const tracing = await openTracing(config.traces, {
    ...{ service: 'purser-api', environment: config.environment, log },
  });
  const metrics = await openMetrics(config.metrics, { process: 'api', log });
  const pool = createPool({ ...config.database, application: 'purser-api' });
  measurePool(pool, metrics.registry);
  const { address, namespace, apiKey, tls } = config.temporal;
  const connection = Connection.lazy({ address, tls, ...(apiKey !== undefined && { apiKey }) });
  const temporal = createTemporalGateway({
    client: new Client({
      ...{ connection, namespace },
      interceptors: { workflow: [...(tracing?.clientInterceptors ?? []), tellRequest] },
    }),
    decisionWaitMs: config.decisionWaitMs,
    log,
  });
  const installation = createInstallation({
    environment: config.environment,
    secrets: [
      { name: 'PURSER_TOKEN_KEYS_FILE', path: config.tokenKeysFile },
      { name: 'PURSER_WEBHOOK_PUBLIC_KEY_FILE', path: config.webhookPublicKeyFile },
    ],
    pool,
    persistenceStore: createPersistenceStore(connection),
  });
  const app = createApp({
    installation,
    tokens: openTokens(config, { log }),
    signIn: openSignIn(config, { log }),
    environment: config.environment,
    pool,
    temporal,
    tracing,
    measures: createRequestMeasures(metrics.registry),
    registry: createRegistry(config.registry),
    log,
    probe: createProbe(createGuard(config.targets)),
    feeTiers: config.feeTiers,
    allowLoopback: config.targets.allowLoopback,
    trustedProxies: config.trustedProxies,
    corsOrigins: config.corsOrigins,
    failedAuthPerMinute: config.failedAuthPerMinute,
    sealSecret: createSecretSealer({ publicJwk: readWebhookPublicKey(config.webhookPublicKeyFile) }),
    fund: config.faucetUrl === undefined ? undefined : createFundWallet({ faucetUrl: config.faucetUrl }),
  });
  const server = await startServer({ app, host: config.host, port: config.port, log });
  log.info({ url: server.url }, 'listening');

  const stop = async () => {
    await server.stop();
    await Promise.allSettled([pool.end(), connection.close(), tracing?.stop(), metrics.stop()]);
    log.info('stopped');
    process.exit(0);
  };
  stopping.addEventListener('abort', stop, { once: true });
  if (stopping.aborted) await stop();
  await requireInstallation({ installation, log, signal: stopping });
}

function openTokens({ tokenKeysFile, publicUrl }: ApiConfig, { log }: { log: Logger }) {
  if (tokenKeysFile === undefined || publicUrl === undefined) return undefined;
  return createAccessTokens({ ...watchTokenKeys(tokenKeysFile, { log }), issuer: publicUrl });
}

function openSignIn(
  { oidc, publicUrl, consoleUrl, signUp }: ApiConfig,
  { log }: { log: Logger },
): SignInSettings | undefined {
  if (oidc === undefined || publicUrl === undefined) return undefined;
  const provider = createProviderClient(oidc, { redirectUri: redirectUriOf({ publicUrl }), log });
  return { provider, publicUrl, consoleUrl, signUp };
}

function createGuard({ allowLoopback, caFile }: ApiConfig['targets']) {
  return createHttpGuard({ allowLoopback, extraCa: caFile === undefined ? undefined : readTargetCa(caFile) });
}

try {
  await main(apiConfig(process.env));
} catch (error) {
  const { code, port } = error as NodeJS.ErrnoException & { port?: number };
  if (error instanceof ConfigError) console.error(error.message);
  else if (code === 'EADDRINUSE') console.error(`Port ${port} is in use. Set PURSER_PORT to a free one.`);
  else console.error(withoutSecrets(inspect(error)));
  process.exit(1);
}
