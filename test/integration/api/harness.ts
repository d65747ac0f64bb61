import { randomBytes } from 'node:crypto';
import { HDKey } from '@scure/bip32';
import { Client, Connection } from '@temporalio/client';
import { type Address, bytesToHex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { createApp } from '../../../api/app.ts';
import { startServer } from '../../../api/server.ts';
import { createTemporalGateway } from '../../../api/temporal-gateway.ts';
import { createRegistry, type Registry } from '../../../shared/chain/registry.ts';
import { insertAccountKey } from '../../../shared/db/account-keys.ts';
import { createAccount } from '../../../shared/db/accounts.ts';
import { createApiKey } from '../../../shared/db/api-keys.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { newId } from '../../../shared/ids.ts';
import { createLogger } from '../../../shared/log.ts';
import { createTestDatabase } from '../../support/database.ts';

export const usdcContract = '0x5FbDB2315678afecb367f032d93F642f64180aa3';
export const recipient = '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF';

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at freely, member by member, by assertions
  readonly body: any;
}

export interface TestAccount {
  readonly id: string;
  readonly key: string;
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
}

export interface TestApi {
  readonly url: string;
  readonly pool: Pool;
  readonly databaseUrl: string;
  readonly registry: Registry;
  /** An account with an API key, and by default with a key of its own for wallets. */
  account(options?: { withKey?: boolean }): Promise<TestAccount>;
  stop(): Promise<void>;
}

/** The api as the process has it, on a free port; Temporal may be any address, also one where nobody listens. */
export async function startTestApi({
  temporalAddress,
  decisionWaitMs = 100,
  usdc = usdcContract,
}: {
  temporalAddress: string;
  decisionWaitMs?: number;
  usdc?: Address;
}): Promise<TestApi> {
  const database = await createTestDatabase();
  const pool = createPool({ url: database.url, application: 'test-api' });
  const connection = Connection.lazy({ address: temporalAddress });
  const registry = createRegistry({
    environment: 'sandbox',
    enabled: ['eip155:31337', 'eip155:84532'],
    extraTokens: [{ chain: 'eip155:31337', symbol: 'USDC', decimals: 6, asset: usdc }],
  });
  const log = createLogger({ process: 'test', level: 'silent' });
  const temporal = createTemporalGateway({
    client: new Client({ connection }),
    decisionWaitMs,
    accountKeyWaitMs: 500,
    log,
  });
  const app = createApp({ environment: 'sandbox', pool, temporal, registry, log });
  const server = await startServer({ app, host: '127.0.0.1', port: 0, log });
  return {
    url: server.url,
    pool,
    databaseUrl: database.url,
    registry,
    account: (options) => createTestAccount({ pool, url: server.url, ...options }),
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
  withKey = true,
}: {
  pool: Pool;
  url: string;
  withKey?: boolean;
}): Promise<TestAccount> {
  const id = await createAccount(pool, { name: 'test', plan: 'enterprise' });
  const { key } = await createApiKey(pool, { accountId: id, name: 'test', environment: 'sandbox' });
  if (withKey) await insertAccountKey(pool, { id: newId('ckey'), accountId: id, ...publicKey() });
  return {
    id,
    key,
    async call(method, path, body, headers = {}) {
      const response = await fetch(url + path, {
        method,
        headers: { 'x-api-key': key, ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
        ...(body !== undefined && { body: isRaw(body) ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) };
    },
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
