import { TypedSearchAttributes } from '@temporalio/common';
import type { DeliveryRow } from './db/webhook-deliveries.ts';
import { queues, searchAttributes, type WebhookDeliveryInput } from './temporal.ts';

/** Options that start workflow `webhookDelivery` for a row; the same for everybody who may start it. */
export function webhookDeliveryStart(
  row: Pick<DeliveryRow, 'id' | 'account_id' | 'webhook_id' | 'event_id' | 'event_type'>,
) {
  const input: WebhookDeliveryInput = { deliveryId: row.id };
  return {
    workflowId: row.id,
    taskQueue: queues.deliveries,
    workflowTaskTimeout: '5s' as const,
    workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' as const,
    args: [input] as [WebhookDeliveryInput],
    // Its activity inherits this: an account with thousands of deliveries does not hold up the one of another.
    priority: { fairnessKey: row.account_id },
    typedSearchAttributes: new TypedSearchAttributes([{ key: searchAttributes.accountId, value: row.account_id }]),
    // Without the URL: it may hold what is not for everybody who looks at workflows.
    staticSummary: `${row.event_type} ${row.event_id} to ${row.webhook_id}`,
  };
}
