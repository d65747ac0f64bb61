import { type Client, Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { queues } from '../../shared/temporal.ts';

/** What becomes of each workflow task; a workflow that is not named rests, and waits for signals. */
export type Behaviour = 'rest' | 'complete' | 'fail' | 'fail-step';

/** `CommandType` and `WorkflowTaskFailedCause` of Temporal's API. */
const [scheduleActivity, completeWorkflow, unspecified] = [1, 4, 0] as const;
/** gRPC status NOT_FOUND. */
const notFound = 5;
const failingQueue = 'failing-steps';
const manyTimes = { initialInterval: msToTs('10ms'), backoffCoefficient: 1 };
const patient = { startToCloseTimeout: msToTs('1m'), scheduleToCloseTimeout: msToTs('10m') };
/** The server answers an idle poll before. */
const pollMs = 70_000;

/**
 * Serves queue `wallet` in place of a worker, and lets workflows end, fail or rest as told: states that the product's
 * own worker is not to get into.
 */
export async function startPuppetWorker({ address }: { address: string }) {
  const connection = await Connection.connect({ address });
  const { workflowService } = connection;
  const namespace = 'default';
  const behaviours = new Map<string, Behaviour>();
  const ending = new AbortController();

  async function serveWorkflows(): Promise<void> {
    const { taskToken, workflowExecution } = await workflowService.pollWorkflowTaskQueue({
      namespace,
      taskQueue: { name: queues.wallet },
    });
    if (!taskToken?.length) return;
    const behaviour = behaviours.get(workflowExecution!.workflowId!) ?? 'rest';
    if (behaviour === 'fail') {
      const failure = { message: 'on purpose' };
      await workflowService.respondWorkflowTaskFailed({ namespace, taskToken, cause: unspecified, failure });
      return;
    }
    const activity = {
      ...{ activityId: 'step', activityType: { name: 'broadcast' }, taskQueue: { name: failingQueue } },
      ...{ retryPolicy: manyTimes, ...patient },
    };
    const commands = {
      rest: [],
      complete: [{ commandType: completeWorkflow, completeWorkflowExecutionCommandAttributes: {} }],
      'fail-step': [{ commandType: scheduleActivity, scheduleActivityTaskCommandAttributes: activity }],
    }[behaviour];
    behaviours.delete(workflowExecution!.workflowId!);
    await workflowService.respondWorkflowTaskCompleted({ namespace, taskToken, commands });
  }

  async function failSteps(): Promise<void> {
    const { taskToken } = await workflowService.pollActivityTaskQueue({ namespace, taskQueue: { name: failingQueue } });
    if (!taskToken?.length) return;
    const failure = { message: 'no node answers', applicationFailureInfo: { type: 'RpcUnavailable' } };
    await workflowService.respondActivityTaskFailed({ namespace, taskToken, failure });
  }

  const serving = [serveWorkflows, failSteps].map(async (serve) => {
    while (!ending.signal.aborted)
      await connection
        .withAbortSignal(ending.signal, () => connection.withDeadline(Date.now() + pollMs, serve))
        .catch((error: unknown) => {
          // A workflow that was terminated meanwhile wants no answer.
          if (!ending.signal.aborted && (error as { code?: number }).code !== notFound) throw error;
        });
  });
  return {
    /** Once for one that is to complete or rest, for ever for one that is to fail. */
    behave: (workflowId: string, behaviour: Behaviour) => void behaviours.set(workflowId, behaviour),
    async stop() {
      ending.abort();
      await Promise.all(serving);
      await connection.close();
    },
  };
}

/** Names of the signals that a workflow was sent, in their order. */
export async function signalsOf(client: Client, workflowId: string): Promise<string[]> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  return (events ?? []).flatMap((event) => event.workflowExecutionSignaledEventAttributes?.signalName ?? []);
}
