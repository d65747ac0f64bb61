import { createSendApprovalMail, type SendApprovalMailDependencies } from './send-approval-mail.ts';

/** Activities of queue `wallet-webhooks`: what leaves for people and for receivers. */
export function createWebhookActivities(deps: SendApprovalMailDependencies) {
  return { sendApprovalMail: createSendApprovalMail(deps) };
}
export type WebhookActivities = ReturnType<typeof createWebhookActivities>;
