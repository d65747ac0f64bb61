import { readFileSync } from 'node:fs';
import { activityInfo } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { NativeConnection, Worker, WorkflowBundleOption } from '@temporalio/worker';
import type { Registry } from 'prom-client';
import { createChainActivities } from '../activities/chain.ts';
import { createDeliveryActivities } from '../activities/deliveries.ts';
import { createDispatcher } from '../activities/dispatch-deliveries.ts';
import { createCountFolder } from '../activities/fold-counts.ts';
import { createGasActivities } from '../activities/gas.ts';
import { createRestoreActivities } from '../activities/restore.ts';
import { createAuditSealer } from '../activities/seal-audit.ts';
import { createSigningActivities } from '../activities/signing.ts';
import { createWalletActivities } from '../activities/wallet.ts';
import { createBlockWatcher } from '../activities/watch-blocks.ts';
import { createWebhookActivities } from '../activities/webhooks.ts';
import { createChainAdapter } from '../shared/chain/create-adapter.ts';
import { createRegistry } from '../shared/chain/registry.ts';
import type { QueueName, WorkerConfig } from '../shared/config.ts';
import { databaseClock } from '../shared/db/clock.ts';
import type { Pool } from '../shared/db/pool.ts';
import { createHttpGuard } from '../shared/http-guard.ts';
import type { Logger } from '../shared/log.ts';
import { measureDatabase } from '../shared/metrics/database-gauges.ts';
import { measureEndpoints } from '../shared/metrics/endpoints.ts';
import { readTargetCa } from '../shared/read-target-ca.ts';
import { importReceiptKey } from '../shared/receipt.ts';
import { messageNames } from '../shared/temporal.ts';
import type { Tracing } from '../shared/tracing/tracing.ts';
import { publicHalfOf, readWebhookKeys } from '../shared/webhook-keys.ts';
import { createSecretOpener, createSecretSealer } from '../shared/webhook-secrets.ts';
import { createSignerClient } from '../signer/client.ts';
import { loadCoordinatorIdentity } from '../signer/identity.ts';
import { createChainWorker } from './chain.ts';
import { createDeliveryWorker } from './deliveries.ts';
import { createMailTransport } from './mail-transport.ts';
import { measureSigners } from './measure-signers.ts';
import { measureWatchers } from './measure-watchers.ts';
import type { Observed } from './observe.ts';
import { readyMonths } from './ready-months.ts';
import { createSigningWorker } from './signing.ts';
import type { SlotGate } from './slot-gate.ts';
import { createWalletWorker } from './wallet.ts';
import { createWebhookWorker } from './webhooks.ts';

/** A role being served; `stop` runs after its workers' last task. */
export interface Served {
  readonly workers: readonly Worker[];
  readonly stop: () => Promise<void>;
}

export interface ServeDependencies {
  readonly config: WorkerConfig;
  readonly connection: NativeConnection;
  readonly client: Client;
  readonly logger: Logger;
  /** The process's one pool; only queues that use the database ask for it. */
  readonly pool: () => Pool;
  /** All workflow code, made once a process; only queues with workflows ask for it. */
  readonly workflowBundle: () => Promise<WorkflowBundleOption>;
  /** Stands around every activity; crash tests end the process in it. */
  readonly wrap: <A extends object>(activities: A) => A;
  /** Through which all workers of the process ask for tasks. */
  readonly gate: SlotGate;
  /** Traces of the process, where wanted. */
  readonly tracing: Tracing | undefined;
  readonly observed: Observed;
  /** Where what is measured is registered. */
  readonly metrics: Registry;
}

/** How each queue is put together from the configuration. */
export const serve: Readonly<Record<QueueName, (deps: ServeDependencies) => Promise<Served>>> = {
  wallet: serveWallet,
  'wallet-signing': serveSigning,
  'wallet-chain': serveChain,
  'wallet-webhooks': serveWebhooks,
};

const clock = () => new Date();
/** For one attempt in all; decisions, section 8. */
const receiverTimeoutMs = 15_000;

async function serveWallet({
  config,
  connection,
  client,
  logger,
  pool,
  workflowBundle,
  wrap,
  gate,
  observed,
  metrics,
}: ServeDependencies): Promise<Served> {
  const policyKey = await importReceiptKey(readFileSync(config.policyKeyFile!, 'utf8'));
  const { maxInFlight, spareKeys, patience, retention } = config;
  const common = { pool: pool(), logger };
  const activities = wrap({
    ...createWalletActivities({
      ...{ ...common, client, clock: databaseClock, policyKey },
      ...{ maxInFlight, spareKeys, patience, retention },
    }),
    ...createGasActivities({ ...common, client, registry: createRegistry(config.registry) }),
    ...createRestoreActivities({ ...common, client, registry: createRegistry(config.registry) }),
  });
  measureDatabase({ pool: pool(), registry: metrics, log: logger });
  await readyMonths(common);
  const { namespace } = config.temporal;
  const bundled = { activities, workflowBundle: await workflowBundle() };
  const worker = await createWalletWorker({ connection, namespace, gate, observed, ...bundled });
  const loops = [createAuditSealer(common), createCountFolder(common)];
  for (const loop of loops) loop.start();
  return { workers: [worker], stop: async () => void (await Promise.all(loops.map((loop) => loop.stop()))) };
}

async function serveSigning({
  config,
  connection,
  wrap,
  gate,
  tracing,
  observed,
  metrics,
}: ServeDependencies): Promise<Served> {
  const identity = await loadCoordinatorIdentity(config.coordinatorKeyFile!);
  const measures = measureSigners(metrics);
  const trace = measures.around(tracing?.callSigner);
  const signer = measures.wrap(await createSignerClient({ signers: config.signers!, identity, trace }));
  const { namespace } = config.temporal;
  const activities = wrap(createSigningActivities({ signer }));
  const worker = await createSigningWorker({ connection, namespace, activities, gate, observed });
  return { workers: [worker], stop: async () => signer.close() };
}

async function serveChain({
  config,
  connection,
  client,
  logger,
  pool,
  wrap,
  gate,
  observed,
  metrics,
}: ServeDependencies): Promise<Served> {
  const watchEndpoints = measureEndpoints(metrics);
  const measureWatcher = measureWatchers(metrics);
  const adapters = createRegistry(config.registry).chains.map((chain) =>
    createChainAdapter({
      chain,
      urls: config.rpc[chain.id]!,
      maxFee: config.maxFee[chain.id],
      speedUpAfterBlocks: config.speedUpAfterBlocks[chain.id],
      logger,
      watch: watchEndpoints(chain.id),
    }),
  );
  const chains = new Map(adapters.map((adapter) => [adapter.chain.id, adapter]));
  const { patience, lowTransfers } = config;
  const firstTriedAt = () => new Date(activityInfo().scheduledTimestampMs);
  const activities = wrap(createChainActivities({ pool: pool(), chains, clock, firstTriedAt, patience, lowTransfers }));
  const { namespace } = config.temporal;
  const worker = await createChainWorker({ connection, namespace, activities, gate, observed });
  const wake = (transactionId: string) => client.workflow.getHandle(transactionId).signal(messageNames.chainState);
  const watchers = adapters.map((adapter) =>
    createBlockWatcher({ pool: pool(), adapter, wake, logger, measure: measureWatcher(adapter.chain.id) }),
  );
  for (const watcher of watchers) watcher.start();
  return { workers: [worker], stop: async () => void (await Promise.all(watchers.map((watcher) => watcher.stop()))) };
}

/** What leaves for people and for receivers: two queues, so that no mail waits for a receiver. */
async function serveWebhooks(deps: ServeDependencies): Promise<Served> {
  const [mail, deliveries] = await Promise.all([serveMail(deps), serveDeliveries(deps)]);
  return {
    workers: [...mail.workers, ...deliveries.workers],
    stop: async () => void (await Promise.all([mail.stop(), deliveries.stop()])),
  };
}

async function serveMail({
  config,
  connection,
  logger,
  pool,
  wrap,
  gate,
  observed,
}: ServeDependencies): Promise<Served> {
  const registry = createRegistry(config.registry);
  const transport = createMailTransport({
    server: config.smtpServer!,
    mustEncrypt: config.environment === 'production',
  });
  const activities = wrap(
    createWebhookActivities({
      pool: pool(),
      clock: databaseClock,
      logger,
      transport,
      from: config.mailFrom!,
      alertTo: config.alertTo,
      publicUrl: config.publicUrl!,
      chainName: (id) => registry.chain(id)?.name ?? id,
    }),
  );
  const { namespace } = config.temporal;
  const worker = await createWebhookWorker({ connection, namespace, activities, gate, observed });
  return { workers: [worker], stop: async () => transport.close() };
}

async function serveDeliveries({
  config,
  connection,
  client,
  logger,
  pool,
  workflowBundle,
  wrap,
  gate,
  observed,
}: ServeDependencies): Promise<Served> {
  const jwks = readWebhookKeys(config.webhookKeysFile!);
  const { allowLoopback, caFile } = config.targets;
  const activities = wrap(
    createDeliveryActivities({
      pool: pool(),
      clock: databaseClock,
      guard: createHttpGuard({
        allowLoopback,
        extraCa: caFile === undefined ? undefined : readTargetCa(caFile),
        timeoutMs: receiverTimeoutMs,
      }),
      opener: createSecretOpener({ jwks }),
      seal: createSecretSealer({ publicJwk: publicHalfOf(jwks.keys[0]!) }),
      livemode: config.environment === 'production',
      logger,
    }),
  );
  const { namespace } = config.temporal;
  const common = { connection, namespace, gate, observed };
  const worker = await createDeliveryWorker({ ...common, activities, workflowBundle: await workflowBundle() });
  const dispatcher = createDispatcher({ pool: pool(), client, logger });
  dispatcher.start();
  return { workers: [worker], stop: dispatcher.stop };
}
