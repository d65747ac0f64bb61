import type { Client } from '@temporalio/client';
import { freezeWorkflowId, messageNames, queues, workflowNames } from './temporal.ts';

/** Has the signers told what is frozen: starts the workflow that does it, or has the one that runs read everything anew. */
export async function startFreeze({ workflow }: Client): Promise<void> {
  await workflow.signalWithStart(workflowNames.freeze, {
    workflowId: freezeWorkflowId,
    taskQueue: queues.wallet,
    signal: messageNames.lookAgain,
    // Before the payments that wait: there are most of them when somebody freezes. What it starts inherits it.
    priority: { priorityKey: 1 },
    staticSummary: 'Telling the signers what is frozen',
  });
}
