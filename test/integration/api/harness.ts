import { randomBytes } from 'node:crypto';
import { HDKey } from '@scure/bip32';
import { Client, Connection } from '@temporalio/client';
import { type Address, bytesToHex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { createApp } from '../../../api/app.ts';
import type { SignInSettings } from '../../../api/routes/sign-in.ts';
import { startServer } from '../../../api/server.ts';
import { createTemporalGateway } from '../../../api/temporal-gateway.ts';
import { type AccessTokens, createAccessTokens } from '../../../api/tokens/access-tokens.ts';
import { readTokenKeys } from '../../../api/tokens/read-token-keys.ts';
import { createProbe } from '../../../api/x402/probe.ts';
import { createRegistry, type Registry } from '../../../shared/chain/registry.ts';
import { insertAccountKey } from '../../../shared/db/account-keys.ts';
import { createAccount } from '../../../shared/db/accounts.ts';
import { createApiKey } from '../../../shared/db/api-keys.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import type { Role } from '../../../shared/domain/access.ts';
import type { Plan } from '../../../shared/domain/plans.ts';
import type { FeeTier } from '../../../shared/domain/x402-fee.ts';
import { createHttpGuard, type HttpGuard } from '../../../shared/http-guard.ts';
import { newId } from '../../../shared/ids.ts';
import { createInstallation } from '../../../shared/installation.ts';
import { createLogger, type Logger } from '../../../shared/log.ts';
import { createPersistenceStore } from '../../../shared/persistence-store.ts';
import { createSecretSealer } from '../../../shared/webhook-secrets.ts';
import { createTestDatabase } from '../../support/database.ts';
import { signInWith } from '../../support/sign-in.ts';
import { testIssuer, testTokenKeys } from '../../support/token-keys.ts';
import { testWebhookKeys } from '../../support/webhook-keys.ts';

export const usdcContract = '0x5FbDB2315678afecb367f032d93F642f64180aa3';
export const recipient = '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF';

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at freely, member by member, by assertions
  readonly body: any;
}

type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;

export interface TestAccount {
  readonly id: string;
  readonly key: string;
  /** By the account's API key. */
  readonly call: Call;
  /** A person who is signed in for the account, by default as its owner. */
  person(email: string, options?: PersonOptions): Promise<TestPerson>;
}

export interface PersonOptions {
  readonly role?: Role;
  readonly emailVerified?: boolean;
  readonly lifetimeSeconds?: number;
}

export interface TestPerson {
  readonly token: string;
  readonly userId: string;
  readonly sessionId: string;
  /** By the person's access token, and nothing else. */
  readonly call: Call;
}

export interface TestApi {
  readonly url: string;
  readonly pool: Pool;
  readonly databaseUrl: string;
  /** Of the role that owns the schema, and so reads every table. */
  readonly ownerUrl: string;
  readonly registry: Registry;
  /** Those that it gives and takes. */
  readonly tokens: AccessTokens;
  /** An account with an API key, and by default with a key of its own for wallets. */
  account(options?: { withKey?: boolean; plan?: Plan }): Promise<TestAccount>;
  stop(): Promise<void>;
}

/** The api as the process has it, on a free port; Temporal may be any address, also one where nobody listens. */
export async function startTestApi({
  temporalAddress,
  decisionWaitMs = 100,
  usdc = usdcContract,
  chains = ['eip155:31337', 'eip155:84532'],
  takesTokens = true,
  feeTiers = [{ fromAmount: '0', rate: '0' }],
  allowLoopback = true,
  trustedProxies = [],
  corsOrigins = [],
  failedAuthPerMinute = 10_000,
  port = 0,
  signIn,
  guard = createHttpGuard({ allowLoopback }),
  log = createLogger({ process: 'test', level: 'silent' }),
}: {
  temporalAddress: string;
  decisionWaitMs?: number;
  usdc?: Address;
  /** That it serves. */
  chains?: readonly string[];
  /** Whether it has keys for access tokens. */
  takesTokens?: boolean;
  /** Of x402 payments; none by default. */
  feeTiers?: readonly FeeTier[];
  /** Whether x402 targets and webhooks may be on this machine. */
  allowLoopback?: boolean;
  /** Networks whose X-Forwarded-For is believed. */
  trustedProxies?: readonly string[];
  /** Whose pages may use it. */
  corsOrigins?: readonly string[];
  /** Beyond what any test sends that is not about this. */
  failedAuthPerMinute?: number;
  /** Any free one by default. */
  port?: number;
  /** How people sign in, who can then reach the api at `publicUrl`; by default they cannot. */
  signIn?: SignInSettings;
  /** By which x402 targets are asked. */
  guard?: HttpGuard;
  log?: Logger;
}): Promise<TestApi> {
  const database = await createTestDatabase();
  const pool = createPool({ url: database.url, application: 'test-api' });
  // Many ask at once in tests: that a busy machine serves them late is no reason to answer 503.
  pool.options.connectionTimeoutMillis = 60_000;
  const connection = Connection.lazy({ address: temporalAddress });
  const registry = createRegistry({
    environment: 'sandbox',
    enabled: chains,
    extraTokens: [
      { chain: 'eip155:31337', symbol: 'USDC', decimals: 6, asset: usdc, domain: { name: 'USD Coin', version: '2' } },
    ],
  });
  const keys = readTokenKeys((await testTokenKeys()).keysFile);
  const tokens = createAccessTokens({ keys: () => keys, issuer: testIssuer });
  const temporal = createTemporalGateway({
    client: new Client({ connection }),
    decisionWaitMs,
    accountKeyWaitMs: 500,
    log,
  });
  const installation = createInstallation({
    environment: 'sandbox',
    secrets: [],
    pool,
    persistenceStore: createPersistenceStore(connection),
  });
  const app = createApp({
    installation,
    environment: 'sandbox',
    pool,
    temporal,
    registry,
    log,
    tokens: takesTokens ? tokens : undefined,
    signIn,
    probe: createProbe(guard),
    feeTiers,
    allowLoopback,
    trustedProxies,
    corsOrigins,
    failedAuthPerMinute,
    sealSecret: createSecretSealer({ publicJwk: (await testWebhookKeys()).publicJwk }),
  });
  const server = await startServer({ app, host: '127.0.0.1', port, log });
  return {
    url: server.url,
    pool,
    databaseUrl: database.url,
    ownerUrl: database.ownerUrl,
    registry,
    tokens,
    account: (options) => createTestAccount({ pool, url: server.url, tokens, ...options }),
    async stop() {
      await server.stop();
      await pool.end();
      await connection.close();
      await database.drop();
    },
  };
}

async function createTestAccount({
  pool,
  url,
  tokens,
  withKey = true,
  plan = 'enterprise',
}: {
  pool: Pool;
  url: string;
  tokens: AccessTokens;
  withKey?: boolean;
  plan?: Plan;
}): Promise<TestAccount> {
  const id = await createAccount(pool, { name: 'test', plan });
  const { key } = await createApiKey(pool, { accountId: id, name: 'test', environment: 'sandbox' });
  if (withKey) await insertAccountKey(pool, { id: newId('ckey'), accountId: id, ...publicKey() });
  return {
    id,
    key,
    call: callWith(url, { 'x-api-key': key }),
    async person(email, options = {}) {
      const signedIn = await signInWith({ pool, tokens }, { accountId: id, email, ...options });
      return { ...signedIn, call: callWith(url, { authorization: `Bearer ${signedIn.token}` }) };
    },
  };
}

/** Calls with the given credentials. */
export function callWith(url: string, credentials: Record<string, string>): Call {
  return async (method, path, body, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: { ...credentials, ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: isRaw(body) ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) };
  };
}

/** Sent as it is: a test writes broken JSON as a string, broken UTF-8 as bytes. */
function isRaw(body: unknown): body is string | Uint8Array<ArrayBuffer> {
  return typeof body === 'string' || body instanceof Uint8Array;
}

/** Public halves as the signers would publish them. */
function publicKey() {
  const root = HDKey.fromMasterSeed(randomBytes(32));
  const { publicKey } = privateKeyToAccount(bytesToHex(root.privateKey!));
  return { publicKey, chainCode: bytesToHex(root.chainCode!) };
}

let names = 0;

/** A new agent of the account. */
export async function createAgent(
  account: TestAccount,
  more: Record<string, unknown> = {},
): Promise<{ id: string; address: string }> {
  names += 1;
  const { body, status } = await account.call('POST', '/api/v1/agents', {
    agent_name: `agent ${names}`,
    chain: 'eip155:31337',
    ...more,
  });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return { id: body.id, address: body.wallet.address };
}

/** A valid request to pay. */
export const payment = (agentId: string, more: Record<string, unknown> = {}) => ({
  agent_id: agentId,
  direction: 'outbound',
  type: 'transfer',
  to_address: recipient,
  amount: '12.5',
  token: 'USDC',
  chain: 'eip155:31337',
  ...more,
});
