import {
  type Client,
  QueryNotRegisteredError,
  QueryRejectedError,
  WorkflowExecutionAlreadyStartedError,
} from '@temporalio/client';
import { messageNames, queues, type RestoreInput, type RestoreResult, workflowNames } from '../../shared/temporal.ts';

/** How often it is asked how far it is. */
const pollMs = 1_000;

/**
 * Runs workflow `restore` to its end, or waits for the one that runs.
 * @param tell gets each new word about how far it is
 * @throws WorkflowFailedError with the reason of the workflow
 */
export async function runRestore(
  client: Client,
  { input, tell }: { input: RestoreInput; tell: (words: string) => void },
): Promise<RestoreResult> {
  const handle = await client.workflow
    .start(workflowNames.restore, {
      workflowId: workflowNames.restore,
      taskQueue: queues.wallet,
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      args: [input],
      staticSummary: input.dryRun
        ? 'Compares the database with signers and Temporal, and changes nothing'
        : 'Compares the database with signers and Temporal after a restore, and mends it',
    })
    .catch((error: unknown) => {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      tell('One is running already: waits for its end.');
      return client.workflow.getHandle(workflowNames.restore);
    });
  let last = '';
  const timer = setInterval(async () => {
    const words = await handle.query<string>(messageNames.restoreProgress).catch((error: unknown) => {
      if (error instanceof QueryNotRegisteredError || error instanceof QueryRejectedError) return last;
      return 'Waits for a worker of queue wallet.';
    });
    if (words !== last) tell(words);
    last = words;
  }, pollMs);
  try {
    return (await handle.result()) as RestoreResult;
  } finally {
    clearInterval(timer);
  }
}
