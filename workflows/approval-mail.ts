import { ActivityFailure, ApplicationFailure, setCurrentDetails } from '@temporalio/workflow';
import type { ApprovalMailInput } from '../shared/temporal.ts';
import { findApprovalMails, mailsWithin } from './proxies.ts';

/** Tells everybody whom a question names, each by a mail of their own, for as long as the question is open. */
export async function approvalMail({ approvalId }: ApprovalMailInput): Promise<{ sent: number; unneeded: number }> {
  const { approvers, leftMs } = await findApprovalMails(approvalId);
  const { sendApprovalMail } = mailsWithin(leftMs);
  const outcomes = await Promise.all(
    approvers.map(async (approver) => {
      try {
        return await sendApprovalMail({ approvalId, approver });
      } catch (error) {
        if (!(error instanceof ActivityFailure)) throw error;
        return 'failed';
      }
    }),
  );
  const count = (outcome: (typeof outcomes)[number]) => outcomes.filter((each) => each === outcome).length;
  const [sent, unneeded, failed] = [count('sent'), count('unneeded'), count('failed')];
  setCurrentDetails(`Sent ${sent}, not needed any more ${unneeded}, failed ${failed} of ${approvers.length} mails.`);
  if (failed > 0) {
    const message = `${failed} of ${approvers.length} approvers could not be told; GET /approvals/${approvalId} says why.`;
    throw ApplicationFailure.nonRetryable(message, 'MailFailed');
  }
  return { sent, unneeded };
}
