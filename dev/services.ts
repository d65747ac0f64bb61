import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Connection } from '@temporalio/client';
import { queues } from '../shared/temporal.ts';
import { LOOPBACK } from './ports.ts';
import { type Child, type Guard, startProcess, waitUntilReady } from './process.ts';

const START_TIMEOUT_MS = 60_000;
/** The worker lets running activities end for 30 s. */
const WORKER_STOP_TIMEOUT_MS = 40_000;
/** `TaskQueueType` of Temporal's API: 1 = workflow, 2 = activity. */
const QUEUES = [
  { name: queues.wallet, type: 1 },
  { name: queues.signing, type: 2 },
  { name: queues.chain, type: 2 },
  { name: queues.webhooks, type: 2 },
  { name: queues.deliveries, type: 1 },
  { name: queues.deliveries, type: 2 },
];
const HERE = fileURLToPath(new URL('..', import.meta.url));

interface ServiceOptions {
  /** Environment of the process, as deploy/Dockerfile's containers get it. */
  env: NodeJS.ProcessEnv;
  logFile: string;
}

/** Starts one worker process for all queues and waits until each queue has somebody who polls it. */
export async function startWorker(guard: Guard, o: ServiceOptions): Promise<Child> {
  const child = await startProcess(guard, {
    name: 'The worker',
    command: process.execPath,
    args: [join(HERE, 'worker', 'main.ts')],
    stopTimeoutMs: WORKER_STOP_TIMEOUT_MS,
    ...o,
  });
  const { TEMPORAL_ADDRESS: address = '', TEMPORAL_NAMESPACE: namespace = 'default' } = o.env;
  const connection = Connection.lazy({ address });
  try {
    await waitUntilReady(child, { timeoutMs: START_TIMEOUT_MS, check: () => requirePollers(connection, namespace) });
  } catch (error) {
    await child.stop();
    throw error;
  } finally {
    await connection.close();
  }
  return child;
}

async function requirePollers(connection: Connection, namespace: string): Promise<void> {
  for (const { name, type } of QUEUES) {
    const taskQueue = { name };
    const { pollers } = await connection.withDeadline(Date.now() + 2_000, () =>
      connection.workflowService.describeTaskQueue({ namespace, taskQueue, taskQueueType: type }),
    );
    if (!pollers?.length) throw new Error(`nobody polls the task queue ${name} yet`);
  }
}

/**
 * Starts the API and waits until it is alive.
 * @param o.code folder of the version that runs; default this one
 */
export async function startApi(guard: Guard, o: ServiceOptions & { port: number; code?: string }): Promise<Child> {
  const { env, logFile, port, code = HERE } = o;
  const child = await startProcess(guard, {
    name: 'The API',
    command: process.execPath,
    args: [join(code, 'api', 'main.ts')],
    env,
    logFile,
  });
  try {
    await waitUntilReady(child, {
      timeoutMs: START_TIMEOUT_MS,
      check: () => requireOk(`http://${LOOPBACK}:${port}/healthz`),
    });
  } catch (error) {
    await child.stop();
    throw error;
  }
  return child;
}

/** Throws with the answer's text unless the URL answers 2xx. */
export async function requireOk(url: string): Promise<void> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
}
