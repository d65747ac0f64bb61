import { createHash } from 'node:crypto';
import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { Transporter } from 'nodemailer';
import { approvalPath, makeApprovalToken } from '../shared/approval-token.ts';
import { insertApprovalLink } from '../shared/db/approval-links.ts';
import { approvalMailsOf, noteApprovalMail } from '../shared/db/approval-mails.ts';
import { getApproval, type ShownApproval } from '../shared/db/approvals.ts';
import type { Clock } from '../shared/db/clock.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { Logger } from '../shared/log.ts';
import type { MailAddress } from '../shared/mail-settings.ts';
import { notFound } from './failures.ts';
import { readMailFailure } from './mail-failure.ts';
import { renderApprovalMail } from './render-approval-mail.ts';

/** For one mail, everything included: below the activity's own timeout, so that the outcome is noted. */
const defaultDeadlineMs = 90_000;

export interface SendApprovalMailDependencies {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly transport: Transporter;
  readonly from: MailAddress;
  /** Where people reach the api, without a slash at its end. */
  readonly publicUrl: string;
  /** The chain as people know it, by its CAIP-2 id. */
  readonly chainName: (id: string) => string;
  /** How long one mail may take, default 90 s. */
  readonly deadlineMs?: number;
}

/**
 * Sends one approver the link to a question. Each attempt makes a token of its own, which is in the mail and nowhere else:
 * its hash is stored before the mail goes out, so that a mail that arrives works, also when its answer is lost.
 * @throws ApplicationFailure `MailNotSent`, and `MailRefused` (not retryable) when a repeat cannot change it
 */
export function createSendApprovalMail(deps: SendApprovalMailDependencies) {
  const { pool, clock, logger, transport, from, publicUrl, chainName, deadlineMs = defaultDeadlineMs } = deps;
  return async function sendApprovalMail(mail: { approvalId: string; approver: string }): Promise<'sent' | 'unneeded'> {
    const { approvalId, approver } = mail;
    const approval = await getApproval(pool, { id: approvalId });
    if (!approval) throw notFound(`Approval ${approvalId}`);
    const outcome = await outcomeSoFar(pool, approval, approver);
    if (outcome !== 'waiting') return outcome;

    const { token, hash } = makeApprovalToken();
    await insertApprovalLink(pool, { tokenHash: hash, approvalId, approver });
    const content = renderApprovalMail({
      approval,
      approver,
      link: publicUrl + approvalPath(token),
      chainName: chainName(approval.chain),
      now: await clock(pool),
    });
    try {
      await transport.sendMail({
        ...content,
        from,
        to: { name: '', address: approver },
        messageId: messageId(mail, from),
        // Out-of-office programs keep silent. Sources: RFC 3834, 5; MS-OXCMAIL, 2.1.3.2.
        headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
        disableFileAccess: true,
        disableUrlAccess: true,
        signal: AbortSignal.any([Context.current().cancellationSignal, AbortSignal.timeout(deadlineMs)]),
      });
    } catch (error) {
      const { message, isPermanent } = readMailFailure(error, { secret: token });
      await noteApprovalMail(pool, { ...mail, status: isPermanent ? 'failed' : 'waiting', error: message });
      logger.warn({ ...mail, error: message, isPermanent }, 'approval mail was not sent');
      // Without the error as its cause: that one may hold what the server was sent.
      if (isPermanent) throw ApplicationFailure.nonRetryable(message, 'MailRefused');
      throw ApplicationFailure.retryable(message, 'MailNotSent');
    }
    await noteApprovalMail(pool, { ...mail, status: 'sent', error: null });
    return 'sent';
  };
}

/** Whether there is a mail to send: the person may have been told, and may have no say any more. */
async function outcomeSoFar(
  pool: Pool,
  { id, status, decisions }: ShownApproval,
  approver: string,
): Promise<'sent' | 'unneeded' | 'waiting'> {
  const mails = await approvalMailsOf(pool, { approvalId: id });
  const known = mails.find((each) => each.approver === approver);
  if (!known) throw notFound(`A mail about ${id} to this person`);
  if (known.status === 'sent') return 'sent';
  if (status !== 'pending' || decisions.some((each) => each.approver === approver)) return 'unneeded';
  return 'waiting';
}

/** The same for each attempt, so that mail programs show a repeat once. It names the person by a hash only. */
function messageId({ approvalId, approver }: { approvalId: string; approver: string }, from: MailAddress): string {
  const person = createHash('sha256').update(approver).digest('hex').slice(0, 16);
  return `<${approvalId}.${person}@${from.address.split('@')[1]}>`;
}
