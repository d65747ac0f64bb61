import { createDeliverWebhook, type DeliverWebhookDependencies } from './deliver-webhook.ts';
import { createResealSecrets, type ResealDependencies } from './reseal-secrets.ts';

/** Activities of queue `wallet-deliveries`: what opens the secrets of webhooks. */
export function createDeliveryActivities(deps: DeliverWebhookDependencies & ResealDependencies) {
  return { deliverWebhook: createDeliverWebhook(deps), resealSecrets: createResealSecrets(deps) };
}
export type DeliveryActivities = ReturnType<typeof createDeliveryActivities>;
