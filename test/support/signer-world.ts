import { Client, Connection } from '@temporalio/client';
import { NativeConnection, type Worker, type WorkflowBundleWithSourceMap } from '@temporalio/worker';
import { pino } from 'pino';
import type { ChainActivities } from '../../activities/chain.ts';
import { createFindLostWallets } from '../../activities/find-lost-wallets.ts';
import { createNoteSignerLook } from '../../activities/note-signer-look.ts';
import { createRestoreActivities } from '../../activities/restore.ts';
import { createSigningActivities, type SigningActivities } from '../../activities/signing.ts';
import { createWalletActivities } from '../../activities/wallet.ts';
import { createWebhookActivities } from '../../activities/webhooks.ts';
import { createRegistry } from '../../shared/chain/registry.ts';
import { insertAccountKey } from '../../shared/db/account-keys.ts';
import { createAccount } from '../../shared/db/accounts.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { newId } from '../../shared/ids.ts';
import { createSignerClient, type SignerClient } from '../../signer/client.ts';
import { makeWorkflowBundle } from '../../worker/bundle.ts';
import { createChainWorker } from '../../worker/chain.ts';
import { createMailTransport } from '../../worker/mail-transport.ts';
import { createSigningWorker } from '../../worker/signing.ts';
import { createWalletWorker } from '../../worker/wallet.ts';
import { createWebhookWorker } from '../../worker/webhooks.ts';
import { type CheatingRelay, startCheatingRelay } from './cheating-relay.ts';
import { createTestDatabase } from './database.ts';
import { patience } from './patience.ts';
import { startSigners, type TestSigners } from './signers.ts';
import { startSmtpServer, type TestSmtpServer } from './smtp.ts';
import { startOwnTemporal } from './temporal.ts';

/** Whom a mail tells what is wrong. */
export const alertTo = 'ops@example.com';

/** Three signers, and the workers that look after them; that of the chains serves none, and restores alone. */
export interface SignerWorld {
  readonly databaseUrl: string;
  readonly temporalAddress: string;
  readonly pool: Pool;
  readonly client: Client;
  readonly signers: TestSigners;
  readonly signer: SignerClient;
  /** Signer 1, as the workers reach it. */
  readonly relay: CheatingRelay;
  readonly smtp: TestSmtpServer;
  /** Lines that the workers' activities have logged. */
  readonly logged: readonly Record<string, unknown>[];
  /** Lets time pass for what a look at the signers has found. */
  pass(minutes: number): void;
  /** A key of the signers' that is an account's. */
  newKey(): Promise<{ accountId: string; keyId: string; publicKey: `0x${string}`; chainCode: `0x${string}` }>;
  /** Runs a workflow to its end. @returns its result and what an operator reads of it */
  run(name: string, input: object): Promise<{ result: unknown; details: string }>;
  detailsOf(workflowId: string): Promise<string>;
  /** Serves queue `wallet-signing` by other activities from now on. */
  serveSigning(activities?: SigningActivities): Promise<void>;
  stop(): Promise<void>;
}

export async function startSignerWorld(): Promise<SignerWorld> {
  const [temporal, database, signers, smtp] = await Promise.all([
    startOwnTemporal(),
    createTestDatabase(),
    startSigners(),
    startSmtpServer(),
  ]);
  const pool = createPool({ url: database.url, application: 'test' });
  const connection = await NativeConnection.connect({ address: temporal.address });
  const clientConnection = await Connection.connect({ address: temporal.address });
  const client = new Client({ connection: clientConnection });
  const relay = await startCheatingRelay(signers);
  const signer = createSignerClient({ signers: relay.endpoints, identity: signers.coordinatorIdentity });
  const server = { host: '127.0.0.1', port: smtp.port, secure: false, auth: undefined };
  const transport = createMailTransport({ server, mustEncrypt: false });
  const logged: Record<string, unknown>[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void logged.push(JSON.parse(line)) });
  let passedMs = 0;
  const clock = async (db: Parameters<typeof databaseClock>[0]) =>
    new Date((await databaseClock(db)).getTime() + passedMs);

  const common = { connection, namespace: 'default' };
  const workflowBundle: WorkflowBundleWithSourceMap = await makeWorkflowBundle();
  const wallet = {
    ...createWalletActivities({
      ...{ pool, client, clock: databaseClock, policyKey: signers.policyKey, maxInFlight: 16, spareKeys: 0 },
      ...{ patience, logger, retention: { eventMonths: 13, auditMonths: 25 } },
    }),
    noteSignerLook: createNoteSignerLook({ pool, clock, logger }),
    ...createRestoreActivities({
      ...{ pool, client, logger },
      registry: createRegistry({ environment: 'sandbox', enabled: ['eip155:31337'] }),
    }),
  };
  const chain = { findLostWallets: createFindLostWallets({ pool, chains: new Map() }) } as unknown as ChainActivities;
  const webhooks = createWebhookActivities({
    ...{ pool, clock: databaseClock, logger, transport, publicUrl: 'https://purser.example.com' },
    ...{ from: { name: 'Purser', address: 'purser@example.com' }, alertTo: [{ name: '', address: alertTo }] },
    chainName: (id) => id,
  });
  const stopping: (() => Promise<void>)[] = [];
  const start = (worker: Worker) => {
    const running = worker.run();
    return async () => {
      worker.shutdown();
      await running;
    };
  };
  stopping.push(start(await createWalletWorker({ ...common, workflowBundle, activities: wallet })));
  stopping.push(start(await createWebhookWorker({ ...common, activities: webhooks })));
  stopping.push(start(await createChainWorker({ ...common, activities: chain })));
  const own = createSigningActivities({ signer });
  let stopSigning = start(await createSigningWorker({ ...common, activities: own }));

  async function detailsOf(workflowId: string): Promise<string> {
    const handle = client.workflow.getHandle(workflowId);
    return (await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata')).currentDetails;
  }
  return {
    ...{ databaseUrl: database.url, temporalAddress: temporal.address },
    ...{ pool, client, signers, signer, relay, smtp, logged, detailsOf },
    pass(minutes) {
      passedMs += minutes * 60_000;
    },
    async newKey() {
      const accountId = await createAccount(pool, { name: 'Test', plan: 'starter' });
      const { keyId, publicKey, chainCode } = await signer.generateKey({ keyId: newId('ckey') });
      await insertAccountKey(pool, { id: keyId, accountId, publicKey, chainCode });
      return { accountId, keyId, publicKey, chainCode };
    },
    async run(name, input) {
      const workflowId = `test-${newId('tx')}`;
      const handle = await client.workflow.start(name, { workflowId, taskQueue: 'wallet', args: [input] });
      const result = await handle.result();
      return { result, details: await detailsOf(workflowId) };
    },
    async serveSigning(activities = own) {
      await stopSigning();
      stopSigning = start(await createSigningWorker({ ...common, activities }));
    },
    async stop() {
      await Promise.all([stopSigning(), ...stopping.map((stop) => stop())]);
      signer.close();
      transport.close();
      await Promise.all([connection.close(), clientConnection.close(), pool.end()]);
      await Promise.all([temporal.stop(), database.drop(), relay.stop(), signers.stop(), smtp.stop()]);
    },
  };
}
