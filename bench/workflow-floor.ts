import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import type { DevFacts } from '../dev/home.ts';
import type { oneActivity, threeActivities } from './floor-workflows.ts';
import { timed } from './samples.ts';

const workflowQueue = 'bench-floor';
const activityQueue = 'bench-floor-activities';
/** As the service's workers have it. */
const pollers = { type: 'autoscaling', initial: 2, minimum: 1, maximum: 20 } as const;
const withinMs = 30_000;

/** Workflows that do nothing, on the same server as the service's own. */
export interface WorkflowFloor {
  /** From start to result, in milliseconds. */
  oneActivityMs(): Promise<number>;
  threeActivitiesMs(): Promise<number>;
  close(): Promise<void>;
}

/** Starts a workflow worker and an activity worker in this process. */
export async function createWorkflowFloor({ facts }: { facts: DevFacts }): Promise<WorkflowFloor> {
  const logger = new DefaultLogger('ERROR');
  Runtime.install({ logger, shutdownSignals: [] });
  const workflowsPath = fileURLToPath(new URL('./floor-workflows.ts', import.meta.url));
  const workflowBundle = await bundleWorkflowCode({ workflowsPath, logger });
  const address = facts.temporal_address;
  const connection = await NativeConnection.connect({ address });
  const common = { connection, namespace: 'default' };
  const workers = await Promise.all([
    Worker.create({ ...common, taskQueue: workflowQueue, workflowBundle, workflowTaskPollerBehavior: pollers }),
    Worker.create({
      ...common,
      taskQueue: activityQueue,
      activities: { nothing: async () => {} },
      activityTaskPollerBehavior: pollers,
    }),
  ]);
  const running = Promise.all(workers.map((worker) => worker.run()));
  // A worker that breaks shows as workflows that do not end; the reason is thrown by close.
  running.catch(() => {});
  const clientConnection = await Connection.connect({ address });
  const { workflow } = new Client({ connection: clientConnection, namespace: 'default' });
  const start = () => ({ taskQueue: workflowQueue, workflowId: `bench/${randomUUID()}` });
  const within = (call: () => Promise<unknown>) =>
    timed(() => clientConnection.withDeadline(Date.now() + withinMs, call));
  return {
    oneActivityMs: () => within(() => workflow.execute<typeof oneActivity>('oneActivity', start())),
    threeActivitiesMs: () => within(() => workflow.execute<typeof threeActivities>('threeActivities', start())),
    async close() {
      for (const worker of workers) worker.shutdown();
      await running;
      await clientConnection.close();
      await connection.close();
    },
  };
}
