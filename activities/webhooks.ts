import { createSendAlertMail, type SendAlertMailDependencies } from './send-alert-mail.ts';
import { createSendApprovalMail, type SendApprovalMailDependencies } from './send-approval-mail.ts';

/** Activities of queue `wallet-webhooks`: what leaves for people and for receivers. */
export function createWebhookActivities(deps: SendApprovalMailDependencies & SendAlertMailDependencies) {
  return { sendApprovalMail: createSendApprovalMail(deps), sendAlertMail: createSendAlertMail(deps) };
}
export type WebhookActivities = ReturnType<typeof createWebhookActivities>;
