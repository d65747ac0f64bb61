import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import type { TemporalOptions } from '../../../shared/config.ts';
import { queues, type ReadinessResult, searchAttributes, workflowNames } from '../../../shared/temporal.ts';
import { type Finding, look, lookMs, notChecked, ok, wrong } from './finding.ts';

/** Ids of worker/schedules.ts; the workers make those that are missing when they start. */
const scheduleIds = ['reconcile', 'check-limits', 'maintenance', 'watch-signers', 'watch-gas', 'refresh-keys'];
/** `TASK_QUEUE_TYPE_WORKFLOW` and `TASK_QUEUE_TYPE_ACTIVITY`: the queue `wallet` and the deliveries' have both. */
const [workflowTasks, activityTasks] = [1, 2];
const withWorkflows: readonly string[] = [queues.wallet, queues.deliveries];
/** Histories of ended payments are read for a while: what went wrong, and in which order. */
const shortestRetentionDays = 1;
const maxSkewMs = 1_000;
/** `IndexedValueType`, by the names that search attributes have in our code. */
const typeNumbers: Readonly<Record<string, number>> = { TEXT: 1, KEYWORD: 2, INT: 3, DOUBLE: 4, BOOL: 5, DATETIME: 6 };
const reach = 'Check TEMPORAL_ADDRESS, TEMPORAL_TLS and TEMPORAL_API_KEY';

/** Temporal, who works there, and through them the signers. */
export async function checkTemporal(options: TemporalOptions | undefined): Promise<Finding[]> {
  if (!options) return [notChecked('Temporal, workers and signers', 'TEMPORAL_ADDRESS')];
  const { address, namespace, apiKey, tls } = options;
  let connection: Connection | undefined;
  try {
    const first = await look('Temporal', `${reach}.`, async () => {
      connection = await Connection.connect({
        address,
        tls,
        connectTimeout: lookMs / 2,
        ...(apiKey !== undefined && { apiKey }),
      });
      const { serverVersion } = await connection.workflowService.getSystemInfo({});
      return ok('Temporal', `server ${serverVersion} at ${address}`);
    });
    if (!connection || first.status === 'wrong') return [first];
    const client = new Client({ connection, namespace });
    const all = await Promise.all([
      checkNamespace(client),
      checkSearchAttributes(client),
      checkSchedules(client),
      ...Object.values(queues).map((queue) => checkQueue(client, queue)),
      ...checkReadiness(client),
    ]);
    return [first, ...all];
  } finally {
    await connection?.close();
  }
}

const checkNamespace = (client: Client) =>
  look('Temporal namespace', `Make the namespace, or set TEMPORAL_NAMESPACE to the right one.`, async () => {
    const { namespace } = client.options;
    const { config } = await client.workflowService.describeNamespace({ namespace });
    const days = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) / 86_400;
    return days < shortestRetentionDays
      ? wrong(
          'Temporal namespace',
          `${namespace} keeps ended workflows for ${days} days. Keep them for ${shortestRetentionDays} at least (temporal operator namespace update --retention).`,
        )
      : ok('Temporal namespace', `${namespace} keeps ended workflows for ${days} days`);
  });

const checkSearchAttributes = (client: Client) =>
  look('search attributes', `${reach}, and that it may read the operator's service.`, async () => {
    const { namespace } = client.options;
    const found = await client.connection.operatorService.listSearchAttributes({ namespace });
    const faults = Object.values(searchAttributes).flatMap(({ name, type }) => {
      const there = found.customAttributes?.[name];
      if (there === typeNumbers[type]) return [];
      return [there === undefined ? `${name} (${type}) is missing` : `${name} is not of type ${type}`];
    });
    return faults.length > 0
      ? wrong(
          'search attributes',
          `${faults.join(', ')}. Make them: temporal operator search-attribute create --name NAME --type TYPE.`,
        )
      : ok(
          'search attributes',
          Object.values(searchAttributes)
            .map(({ name }) => name)
            .join(', '),
        );
  });

const checkSchedules = (client: Client) =>
  look('schedules', `${reach}.`, async () => {
    const found: string[] = [];
    for await (const { scheduleId, state } of client.schedule.list())
      if (!state.paused || scheduleId === 'refresh-keys') found.push(scheduleId);
    const missing = scheduleIds.filter((id) => !found.includes(id));
    return missing.length > 0
      ? wrong(
          'schedules',
          `${missing.join(', ')} missing or paused. A worker of queue wallet makes them when it starts; unpause those that somebody paused.`,
        )
      : ok('schedules', scheduleIds.join(', '));
  });

const checkQueue = (client: Client, queue: string) =>
  look(`workers of ${queue}`, `${reach}.`, async () => {
    const check = `workers of ${queue}`;
    const types = withWorkflows.includes(queue) ? [workflowTasks, activityTasks] : [activityTasks];
    const counts = await Promise.all(
      types.map(async (taskQueueType) => {
        const { pollers } = await client.workflowService.describeTaskQueue({
          namespace: client.options.namespace,
          taskQueue: { name: queue },
          taskQueueType: taskQueueType as 1 | 2,
        });
        return new Set(pollers?.map(({ identity }) => identity)).size;
      }),
    );
    const least = Math.min(...counts);
    const serves = queue === queues.deliveries ? queues.webhooks : queue;
    return least === 0
      ? wrong(check, `nobody has asked for work in the last minutes. Start a worker with PURSER_QUEUES=${serves}.`)
      : ok(check, `${least} asking for work`);
  });

/** Signers, and Temporal's clock: goes the way that payments go. */
function checkReadiness(client: Client): Promise<Finding>[] {
  const todo = 'Look at the workers of wallet and wallet-signing, then at the signers.';
  const started = client.workflow.start<() => Promise<ReadinessResult>>(workflowNames.readiness, {
    workflowId: `doctor/${randomUUID()}`,
    taskQueue: queues.wallet,
    workflowExecutionTimeout: lookMs,
    staticSummary: 'Asks for npm run admin -- doctor whether the signers answer',
  });
  const askedAt = Date.now();
  const clock = look('clock of Temporal', `${reach}.`, async () => {
    const { startTime } = await (await started).describe();
    const skewMs = Math.round(startTime.getTime() - askedAt);
    return Math.abs(skewMs) > maxSkewMs
      ? wrong(
          'clock of Temporal',
          `it differs by about ${skewMs} ms from this machine's. Let both follow the same time server.`,
        )
      : ok('clock of Temporal', `within a second of this machine's`);
  });
  const signers = look('signers', todo, async () => {
    const { signers } = await (await started).result();
    const away = signers.filter((signer) => !signer.ok);
    if (away.length === 0)
      return ok('signers', `${signers.length} answer the workers; npm run signers -- status tells what they hold`);
    const faults = away.map(({ party, error }) => `signer ${party}: ${error ?? 'does not answer'}`);
    return wrong('signers', `${faults.join('; ')}. Look at their logs; npm run signers -- status tells more.`);
  });
  return [signers, clock];
}
