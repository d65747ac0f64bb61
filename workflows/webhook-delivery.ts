import { setCurrentDetails } from '@temporalio/workflow';
import type { DeliveryResult } from '../activities/deliver-webhook.ts';
import type { WebhookDeliveryInput } from '../shared/temporal.ts';
import { deliverWebhook } from './proxies.ts';

/** One event on its way to one webhook, from the first attempt to the last; the server counts the time between them. */
export async function webhookDelivery({ deliveryId }: WebhookDeliveryInput): Promise<DeliveryResult> {
  const result = await deliverWebhook(deliveryId);
  setCurrentDetails(result.status === 'succeeded' ? 'The receiver has taken it.' : 'Not delivered; see the delivery.');
  return result;
}
