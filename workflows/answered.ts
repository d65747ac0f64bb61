import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  condition,
  ParentClosePolicy,
  patched,
  startChild,
  upsertSearchAttributes,
  WorkflowIdReusePolicy,
} from '@temporalio/workflow';
import { nextQuietMs } from '../shared/domain/transaction.ts';
import { approvalMailWorkflowId, searchAttributes } from '../shared/temporal.ts';
import { approvalMail } from './approval-mail.ts';
import { show, wake } from './payment-messages.ts';
import type { Progress } from './progress.ts';
import { awaitApproval } from './proxies.ts';

/**
 * Waits until nobody has to be asked any more, after all who are asked were told. A signal or the timer is only a hint
 * to look into the database.
 * @returns `leftMs`: a question is open all the same, for so long
 */
export async function answered(
  paymentId: string,
  progress: Pick<Progress, 'answerHint' | 'tellsPeople'>,
): Promise<{ outcome: 'go'; leftMs: number | undefined } | { outcome: 'failed' | 'filling' | 'ended' }> {
  show('approval');
  const told = createTold();
  for (let quietMs = 0; ; ) {
    progress.answerHint = false;
    const state = await awaitApproval(paymentId);
    if (state.outcome !== 'waiting') {
      told.end();
      if (state.outcome === 'go') return { outcome: 'go', leftMs: state.leftMs };
      if (state.outcome === 'ended' || state.outcome === 'filling') return { outcome: state.outcome };
      await wake(state.wake);
      return { outcome: 'failed' };
    }
    progress.tellsPeople ??= patched('approval-mail');
    if (progress.tellsPeople) await told.about(state);
    quietMs = nextQuietMs(quietMs);
    await condition(() => progress.answerHint, Math.min(quietMs, state.leftMs));
  }
}

/** Has everybody told whom the open questions name, each question once, and operators see until when. */
function createTold() {
  const known = new Set<string>();
  let shown: string | undefined;
  return {
    async about({ approvalIds, deadline }: { approvalIds: readonly string[]; deadline: string }): Promise<void> {
      if (deadline !== shown) setDeadline(deadline);
      shown = deadline;
      for (const approvalId of approvalIds.filter((id) => !known.has(id))) {
        known.add(approvalId);
        await startMail(approvalId);
      }
    },
    end(): void {
      if (shown !== undefined) setDeadline(undefined);
    },
  };
}

/** The mail has a workflow of its own: it never holds up the payment, and a mail that fails is seen by itself. */
async function startMail(approvalId: string): Promise<void> {
  try {
    await startChild(approvalMail, {
      workflowId: approvalMailWorkflowId(approvalId),
      args: [{ approvalId }],
      parentClosePolicy: ParentClosePolicy.ABANDON,
      workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
      staticSummary: `Mail about ${approvalId}`,
    });
  } catch (error) {
    // An earlier run of this payment has asked already.
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

function setDeadline(deadline: string | undefined): void {
  upsertSearchAttributes([
    { key: searchAttributes.approvalDeadline, value: deadline === undefined ? null : new Date(deadline) },
  ]);
}
