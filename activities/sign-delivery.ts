import { Webhook } from 'standardwebhooks';
import type { WebhookRow } from '../shared/db/webhooks.ts';
import { readWebhookSecret } from '../shared/domain/webhook-secret.ts';
import type { SecretOpener } from '../shared/webhook-secrets.ts';

const userAgent = 'Purser-Webhooks/1.0';

/** The secrets of a webhook, sealed. */
export type SealedSecrets = Pick<WebhookRow, 'id' | 'secret' | 'previous_secret' | 'previous_until'>;

/**
 * The headers by which a receiver knows that the event is ours (Standard Webhooks 1.0): signed by the secret, and by the
 * one before for as long as that is valid.
 * @param eventId the same whenever this event is sent, so that a receiver knows it again
 * @throws where a secret cannot be opened here, or is none
 */
export async function signDelivery(
  opener: SecretOpener,
  { webhook, eventId, body, now }: { webhook: SealedSecrets; eventId: string; body: string; now: Date },
): Promise<Record<string, string>> {
  const isPreviousValid = webhook.previous_until !== null && now < webhook.previous_until;
  const sealed = [webhook.secret, isPreviousValid ? webhook.previous_secret : null].filter((each) => each !== null);
  const signatures = await Promise.all(
    sealed.map(async (each) => {
      const read = readWebhookSecret(await opener.open({ sealed: each, webhookId: webhook.id }));
      if ('fault' in read) throw new Error(`The secret of ${webhook.id} ${read.fault}`);
      return new Webhook(read.key, { format: 'raw' }).sign(eventId, now, body);
    }),
  );
  return {
    'content-type': 'application/json',
    'user-agent': userAgent,
    'webhook-id': eventId,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': signatures.join(' '),
  };
}
