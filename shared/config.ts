import { z } from 'zod';
import { type RegistryOptions, refusedChains } from './chain/registry.ts';
import { chainId, depth, feeTiers, list, network, origin, port, rpcUrls } from './config-values.ts';
import { isDevelopmentSecret } from './domain/development-mark.ts';
import { isLoopback } from './domain/loopback.ts';
import { extraToken } from './extra-token.ts';
import { readFees, wrongFees } from './fee-settings.ts';
import { mailAddress, publicUrl, smtpServer } from './mail-settings.ts';
import { ConfigError, type Env, perChain, read, variableOf } from './read-env.ts';

const common = z.object({
  PURSER_ENV: z.enum(['sandbox', 'production']),
  PURSER_LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  TEMPORAL_ADDRESS: z.string().min(1),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_API_KEY: z.string().min(1).optional(),
  TEMPORAL_TLS: z.enum(['true', 'false']).optional(),
});

/** Where traces go (OTLP over HTTP); unset: none are kept. Headers for it are read from OTEL_EXPORTER_OTLP_HEADERS. */
const traces = z.object({
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/, error: 'is not an http(s) URL' }).optional(),
  PURSER_TRACE_RATIO: z.coerce.number().min(0).max(1).default(1),
});

/** Where metrics are served, as `host:port`; without a port they are not. */
const metrics = z.object({
  PURSER_METRICS_PORT: port.optional(),
  PURSER_METRICS_HOST: z.string().min(1).default('127.0.0.1'),
});

const database = z.object({
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'is not a postgres:// URL' }),
  PURSER_DATABASE_POOL: z.coerce.number().int().min(1).max(200).default(10),
});

const chains = z.object({
  PURSER_CHAINS: list.pipe(z.array(chainId).min(1, 'names at least one chain')),
  PURSER_EXTRA_TOKENS: list.pipe(z.array(extraToken)).default([]),
});

const targets = z.object({
  PURSER_LOOPBACK_TARGETS: z.enum(['on', 'off']).default('off'),
  PURSER_TARGET_CA_FILE: z.string().min(1).optional(),
});

const api = common
  .extend(traces.shape)
  .extend(metrics.shape)
  .extend(database.shape)
  .extend(chains.shape)
  .extend(targets.shape)
  .extend({
    PURSER_HOST: z.string().min(1).default('127.0.0.1'),
    PURSER_PORT: port.default(8080),
    PURSER_DECISION_WAIT_MS: z.coerce.number().int().min(50).max(30_000).default(2_000),
    PURSER_FAUCET_URL: z.url().optional(),
    PURSER_TOKEN_KEYS_FILE: z.string().min(1).optional(),
    PURSER_PUBLIC_URL: publicUrl.optional(),
    PURSER_CONSOLE_URL: publicUrl.optional(),
    PURSER_CORS_ORIGINS: list.pipe(z.array(origin)).default([]),
    PURSER_TRUSTED_PROXIES: list.pipe(z.array(network)).default([]),
    PURSER_FAILED_AUTH_PER_MINUTE: z.coerce.number().int().min(1).max(10_000).default(10),
    PURSER_OIDC_ISSUER: z.url({ protocol: /^https?$/, error: 'is not an http(s) URL' }).optional(),
    PURSER_OIDC_CLIENT_ID: z.string().min(1).optional(),
    PURSER_OIDC_CLIENT_SECRET: z.string().min(1).optional(),
    PURSER_OIDC_SCOPES: z.string().min(1).default('openid email profile'),
    PURSER_OIDC_EMAIL_VERIFIED: z.enum(['claim', 'always']).default('claim'),
    PURSER_SIGN_UP: z.enum(['first', 'anyone', 'invited']).default('first'),
    PURSER_X402_FEE_TIERS: feeTiers.prefault('0=0'),
    PURSER_WEBHOOK_PUBLIC_KEY_FILE: z.string().min(1),
  });

const queueNames = ['wallet', 'wallet-signing', 'wallet-chain', 'wallet-webhooks'] as const;
export type QueueName = (typeof queueNames)[number];

const signer = z.strictObject({
  party: z.union([z.literal(1), z.literal(2), z.literal(3)]),
  url: z.url(),
  publicKey: z.string().min(1),
});

/** An event's month, and so its deliveries, may go soon; the audit log keeps a year whatever is asked for. */
const retention = z.object({
  PURSER_EVENT_MONTHS: z.coerce.number().int().min(1).max(1_200).default(13),
  PURSER_AUDIT_MONTHS: z.coerce.number().int().min(12).max(1_200).default(25),
});

const worker = common
  .extend(traces.shape)
  .extend(metrics.shape)
  .extend(chains.shape)
  .extend(targets.shape)
  .extend(retention.shape)
  .extend({
    PURSER_QUEUES: list.pipe(z.array(z.enum(queueNames)).min(1)).default([...queueNames]),
    DATABASE_URL: database.shape.DATABASE_URL.optional(),
    PURSER_DATABASE_POOL: database.shape.PURSER_DATABASE_POOL,
    PURSER_POLICY_KEY_FILE: z.string().min(1).optional(),
    PURSER_COORDINATOR_KEY_FILE: z.string().min(1).optional(),
    PURSER_SIGNERS: z
      .string()
      .transform((text, context) => {
        try {
          return JSON.parse(text) as unknown;
        } catch {
          context.addIssue({ code: 'custom', message: 'is not JSON' });
          return z.NEVER;
        }
      })
      .pipe(z.array(signer).length(3))
      .optional(),
    PURSER_MAX_IN_FLIGHT: z.coerce.number().int().min(1).max(1_000).default(16),
    PURSER_FUNDING_WAIT_SECONDS: z.coerce.number().int().min(1).max(604_800).default(3_600),
    PURSER_GIVE_UP_SECONDS: z.coerce.number().int().min(60).max(2_592_000).default(86_400),
    PURSER_WORKFLOW_BUNDLE: z.string().min(1).optional(),
    PURSER_SPARE_KEYS: z.coerce.number().int().min(0).max(10).default(1),
    PURSER_GAS_CHECK_MINUTES: z.coerce.number().int().min(1).max(1_440).default(5),
    PURSER_LOW_GAS_TRANSFERS: z.coerce.number().int().min(1).max(1_000).default(5),
    PURSER_KEY_REFRESH_DAYS: z.coerce.number().int().min(0).max(3_650).default(30),
    PURSER_SMTP_URL: smtpServer.optional(),
    PURSER_MAIL_FROM: mailAddress.optional(),
    PURSER_ALERT_TO: list.pipe(z.array(mailAddress).max(50)).default([]),
    PURSER_PUBLIC_URL: publicUrl.optional(),
    PURSER_WEBHOOK_KEYS_FILE: z.string().min(1).optional(),
  });

/** How to reach Temporal; `apiKey` and `tls` for Temporal Cloud. */
export interface TemporalOptions {
  readonly address: string;
  readonly namespace: string;
  readonly apiKey: string | undefined;
  readonly tls: boolean;
}

function temporal(env: z.output<typeof common>): TemporalOptions {
  return {
    address: env.TEMPORAL_ADDRESS,
    namespace: env.TEMPORAL_NAMESPACE,
    apiKey: env.TEMPORAL_API_KEY,
    tls: env.TEMPORAL_TLS === 'true' || (env.TEMPORAL_TLS === undefined && env.TEMPORAL_API_KEY !== undefined),
  };
}

/** Where traces go, and the share of payments and requests that are traced; undefined: nothing is. */
function tracesOf(parsed: z.output<typeof traces>) {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, PURSER_TRACE_RATIO: ratio } = parsed;
  return endpoint === undefined ? undefined : { endpoint, ratio };
}

function metricsOf({ PURSER_METRICS_PORT: port, PURSER_METRICS_HOST: host }: z.output<typeof metrics>) {
  return port === undefined ? undefined : { host, port };
}

function registryOptions(
  env: Env,
  parsed: z.output<typeof chains> & { PURSER_ENV: 'sandbox' | 'production' },
): RegistryOptions {
  return {
    environment: parsed.PURSER_ENV,
    enabled: parsed.PURSER_CHAINS,
    extraTokens: parsed.PURSER_EXTRA_TOKENS,
    confirmations: perChain(env, 'PURSER_CONFIRMATIONS', parsed.PURSER_CHAINS, depth),
  };
}

function targetsOf(parsed: z.output<typeof targets>) {
  return {
    /** Whether urls of this machine may be named, with http too. */
    allowLoopback: parsed.PURSER_LOOPBACK_TARGETS === 'on',
    /** Certificates (PEM) to trust besides the usual ones. */
    caFile: parsed.PURSER_TARGET_CA_FILE,
  };
}

type Surroundings = z.output<typeof targets> & z.output<typeof chains> & { PURSER_ENV: 'sandbox' | 'production' };

/** What does not go with the environment, for every process that serves chains. */
function wrongSurroundings(parsed: Surroundings): string[] {
  const { PURSER_ENV: environment, PURSER_CHAINS: enabled } = parsed;
  const wrong = refusedChains({ environment, enabled }).map((sentence) => `PURSER_CHAINS: ${sentence}`);
  if (environment !== 'production') return wrong;
  if (parsed.PURSER_LOOPBACK_TARGETS === 'on')
    wrong.push(
      'PURSER_LOOPBACK_TARGETS is for trying out: it lets users reach this machine, so it is refused in production.',
    );
  if (parsed.PURSER_TARGET_CA_FILE)
    wrong.push(
      'PURSER_TARGET_CA_FILE is for trying out: whoever holds its key can pass for any target, so it is refused in production.',
    );
  return wrong;
}

type ApiEnv = z.output<typeof api>;

function oidcOf(parsed: ApiEnv) {
  const { PURSER_OIDC_ISSUER: issuer, PURSER_OIDC_CLIENT_ID: clientId } = parsed;
  if (issuer === undefined || clientId === undefined) return undefined;
  return {
    issuer,
    clientId,
    /** Undefined for a public client. */
    clientSecret: parsed.PURSER_OIDC_CLIENT_SECRET,
    scopes: parsed.PURSER_OIDC_SCOPES,
    /** Whether every address that the provider names counts as verified, because it says so of none. */
    trustsEmail: parsed.PURSER_OIDC_EMAIL_VERIFIED === 'always',
  };
}

function wrongSignIn(parsed: ApiEnv): string[] {
  const wrong: string[] = [];
  const { PURSER_OIDC_ISSUER: issuer, PURSER_OIDC_CLIENT_ID: clientId, PURSER_PUBLIC_URL: url } = parsed;
  if ((issuer === undefined) !== (clientId === undefined))
    wrong.push('PURSER_OIDC_ISSUER and PURSER_OIDC_CLIENT_ID belong together: one of them is missing.');
  if (issuer !== undefined && parsed.PURSER_TOKEN_KEYS_FILE === undefined)
    wrong.push('PURSER_TOKEN_KEYS_FILE is missing: who signs in at PURSER_OIDC_ISSUER gets tokens that it signs.');
  if (parsed.PURSER_TOKEN_KEYS_FILE !== undefined && url === undefined)
    wrong.push('PURSER_PUBLIC_URL is missing: it stands in access tokens as their issuer.');
  if (parsed.PURSER_ENV !== 'production') return wrong;
  for (const name of ['PURSER_OIDC_ISSUER', 'PURSER_PUBLIC_URL', 'PURSER_CONSOLE_URL'] as const)
    if (parsed[name]?.startsWith('http:') && !isLoopback(new URL(parsed[name]).hostname))
      wrong.push(`${name} must begin with https:// in production: whoever reads on the way can sign in.`);
  if (isDevelopmentSecret(parsed.PURSER_OIDC_CLIENT_SECRET ?? ''))
    wrong.push(
      'PURSER_OIDC_CLIENT_SECRET is of the identity provider of npm start, where everybody is whom they choose: it is refused in production.',
    );
  for (const from of parsed.PURSER_CORS_ORIGINS)
    if (from.startsWith('http:') && !isLoopback(new URL(from).hostname))
      wrong.push(
        `PURSER_CORS_ORIGINS: ${from} must begin with https:// in production: whoever is on the way can change its pages.`,
      );
  return wrong;
}

/** What the api process is told. @throws ConfigError */
export function apiConfig(env: Env) {
  const parsed = read(api, env);
  const wrong = [...wrongSurroundings(parsed), ...wrongSignIn(parsed)];
  if (parsed.PURSER_ENV === 'production' && parsed.PURSER_FAUCET_URL)
    wrong.push('PURSER_FAUCET_URL is for local chains: it is refused in production.');
  if (wrong.length > 0) throw new ConfigError(wrong);
  return {
    environment: parsed.PURSER_ENV,
    logLevel: parsed.PURSER_LOG_LEVEL,
    host: parsed.PURSER_HOST,
    port: parsed.PURSER_PORT,
    decisionWaitMs: parsed.PURSER_DECISION_WAIT_MS,
    faucetUrl: parsed.PURSER_FAUCET_URL,
    /** JWKS file (RFC 7517) with the private keys of access tokens; without it none is taken or given. */
    tokenKeysFile: parsed.PURSER_TOKEN_KEYS_FILE,
    /** Where people and the identity provider reach the api: issuer of access tokens. */
    publicUrl: parsed.PURSER_PUBLIC_URL,
    /** The identity provider; without it nobody can sign in. */
    oidc: oidcOf(parsed),
    /** Where a sign-in ends, with its code; without it at a page of ours. */
    consoleUrl: parsed.PURSER_CONSOLE_URL,
    /** Whose first sign-in opens an account: of the first person of the installation, of anybody, of nobody. */
    signUp: parsed.PURSER_SIGN_UP,
    /** Origins whose pages may read answers. */
    corsOrigins: parsed.PURSER_CORS_ORIGINS,
    /** Networks of the proxies whose word for the client's address is taken. */
    trustedProxies: parsed.PURSER_TRUSTED_PROXIES,
    /** Credentials that are refused for one address before it is told to wait. */
    failedAuthPerMinute: parsed.PURSER_FAILED_AUTH_PER_MINUTE,
    feeTiers: parsed.PURSER_X402_FEE_TIERS,
    /** Of servers that users name. */
    targets: targetsOf(parsed),
    /** JWK of the workers that deliver to webhooks: secrets are sealed to it. */
    webhookPublicKeyFile: parsed.PURSER_WEBHOOK_PUBLIC_KEY_FILE,
    database: { url: parsed.DATABASE_URL, max: parsed.PURSER_DATABASE_POOL },
    temporal: temporal(parsed),
    traces: tracesOf(parsed),
    metrics: metricsOf(parsed),
    registry: registryOptions(env, parsed),
  };
}
export type ApiConfig = ReturnType<typeof apiConfig>;

const admin = common.extend({
  DATABASE_URL: database.shape.DATABASE_URL,
  TEMPORAL_ADDRESS: common.shape.TEMPORAL_ADDRESS.optional(),
  PURSER_OPERATOR_APPROVALS: z.enum(['on', 'off']).optional(),
});

/** What an operator's command is told. @throws ConfigError */
export function adminConfig(env: Env) {
  const { TEMPORAL_ADDRESS, ...parsed } = read(admin, env);
  return {
    environment: parsed.PURSER_ENV,
    database: { url: parsed.DATABASE_URL, max: 1 },
    /** Without it, payments find by themselves that they were decided. */
    temporal: TEMPORAL_ADDRESS === undefined ? undefined : temporal({ ...parsed, TEMPORAL_ADDRESS }),
    /** Whether an operator may decide for an approver. */
    operatorApprovals: parsed.PURSER_OPERATOR_APPROVALS ?? (parsed.PURSER_ENV === 'production' ? 'off' : 'on'),
  };
}
export type AdminConfig = ReturnType<typeof adminConfig>;

/** What a worker process is told; each queue requires what it alone needs. @throws ConfigError */
export function workerConfig(env: Env) {
  const parsed = read(worker, env);
  const serves = (queue: QueueName) => parsed.PURSER_QUEUES.includes(queue);
  const wrong = wrongSurroundings(parsed);
  const need = (name: keyof typeof parsed, ...queues: QueueName[]) => {
    const wanting = queues.filter(serves);
    if (wanting.length > 0 && parsed[name] === undefined)
      wrong.push(`${name} is missing: queue ${wanting.join(', ')} needs it.`);
  };
  need('DATABASE_URL', 'wallet', 'wallet-chain', 'wallet-webhooks');
  need('PURSER_POLICY_KEY_FILE', 'wallet');
  need('PURSER_SIGNERS', 'wallet-signing');
  need('PURSER_COORDINATOR_KEY_FILE', 'wallet-signing');
  need('PURSER_SMTP_URL', 'wallet-webhooks');
  need('PURSER_MAIL_FROM', 'wallet-webhooks');
  need('PURSER_PUBLIC_URL', 'wallet-webhooks');
  need('PURSER_WEBHOOK_KEYS_FILE', 'wallet-webhooks');
  const page = parsed.PURSER_PUBLIC_URL && new URL(parsed.PURSER_PUBLIC_URL);
  if (parsed.PURSER_ENV === 'production' && page && page.protocol !== 'https:' && !isLoopback(page.hostname))
    wrong.push('PURSER_PUBLIC_URL must begin with https:// in production: whoever reads a link on its way can decide.');
  const rpc = perChain(env, 'PURSER_RPC', parsed.PURSER_CHAINS, rpcUrls);
  if (serves('wallet-chain'))
    for (const id of parsed.PURSER_CHAINS)
      if (!rpc[id])
        wrong.push(`${variableOf('PURSER_RPC', id)} is missing: the URLs of ${id}'s nodes, separated by commas.`);
  if (wrong.length === 0) wrong.push(...wrongFees(env, parsed.PURSER_CHAINS));
  if (wrong.length > 0) throw new ConfigError(wrong);
  return {
    environment: parsed.PURSER_ENV,
    logLevel: parsed.PURSER_LOG_LEVEL,
    queues: parsed.PURSER_QUEUES,
    database: parsed.DATABASE_URL ? { url: parsed.DATABASE_URL, max: parsed.PURSER_DATABASE_POOL } : undefined,
    temporal: temporal(parsed),
    traces: tracesOf(parsed),
    metrics: metricsOf(parsed),
    registry: registryOptions(env, parsed),
    policyKeyFile: parsed.PURSER_POLICY_KEY_FILE,
    coordinatorKeyFile: parsed.PURSER_COORDINATOR_KEY_FILE,
    signers: parsed.PURSER_SIGNERS,
    maxInFlight: parsed.PURSER_MAX_IN_FLIGHT,
    patience: {
      fundingWaitMs: parsed.PURSER_FUNDING_WAIT_SECONDS * 1000,
      giveUpMs: parsed.PURSER_GIVE_UP_SECONDS * 1000,
    },
    spareKeys: parsed.PURSER_SPARE_KEYS,
    /** File made by `worker/bundle.ts`; without it the bundle is made at start. */
    workflowBundle: parsed.PURSER_WORKFLOW_BUNDLE,
    smtpServer: parsed.PURSER_SMTP_URL,
    mailFrom: parsed.PURSER_MAIL_FROM,
    /** Whom a mail tells what is wrong with the signers. */
    alertTo: parsed.PURSER_ALERT_TO,
    /** Days after which the shares of a key are made anew by the schedule; 0: never. */
    keyRefreshDays: parsed.PURSER_KEY_REFRESH_DAYS,
    /** Minutes between looks at what wallets hold for fees. */
    gasCheckMinutes: parsed.PURSER_GAS_CHECK_MINUTES,
    /** Usual transfers of a token that a wallet is to be able to pay for; with fewer it is low on coins for fees. */
    lowTransfers: parsed.PURSER_LOW_GAS_TRANSFERS,
    publicUrl: parsed.PURSER_PUBLIC_URL,
    /** JWKS with the private keys that open secrets of webhooks; the first one is the current one. */
    webhookKeysFile: parsed.PURSER_WEBHOOK_KEYS_FILE,
    /** Of servers that users name. */
    targets: targetsOf(parsed),
    /** Whole months that are kept of events with their deliveries, and of the audit log. */
    retention: { eventMonths: parsed.PURSER_EVENT_MONTHS, auditMonths: parsed.PURSER_AUDIT_MONTHS },
    rpc,
    ...readFees(env, parsed.PURSER_CHAINS),
  };
}
export type WorkerConfig = ReturnType<typeof workerConfig>;
