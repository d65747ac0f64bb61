import { randomBytes } from 'node:crypto';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose';
import { insertEvent, storeEvent } from '../../shared/db/events.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { type DeliveryKind, type DeliveryRow, insertDeliveries } from '../../shared/db/webhook-deliveries.ts';
import { insertWebhook, type WebhookRow } from '../../shared/db/webhooks.ts';
import type { EventType } from '../../shared/domain/events.ts';
import { newId } from '../../shared/ids.ts';
import { publicHalfOf } from '../../shared/webhook-keys.ts';
import { createSecretOpener, createSecretSealer } from '../../shared/webhook-secrets.ts';

/** A key pair for secrets of webhooks. */
export async function newSecretKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ECDH-ES+A256KW', { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk) };
}

/** What opens and seals with these keys, the first being the current one. */
export const secretBox = (...keys: [JWK, ...JWK[]]) => ({
  opener: createSecretOpener({ jwks: { keys } }),
  seal: createSecretSealer({ publicJwk: publicHalfOf(keys[0]) }),
});

export const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;

export async function insertTestAccount(pool: Pool): Promise<string> {
  const id = newId('acct');
  await pool.query(`insert into accounts (id, name, plan) values ($1, 'Test', 'enterprise')`, [id]);
  return id;
}

/** An active webhook, of a new account unless one is given, that wants every kind of event unless told otherwise. */
export async function insertTestWebhook(
  pool: Pool,
  {
    url,
    key,
    accountId,
    secret = newSecret(),
    events = null,
  }: { url: string; key: JWK; accountId?: string; secret?: string; events?: readonly EventType[] | null },
): Promise<WebhookRow & { readonly plainSecret: string }> {
  const id = newId('whk');
  const sealed = await secretBox(key).seal({ secret, webhookId: id });
  const row = await insertWebhook(pool, {
    ...{ id, url, events, sealed, format: 'base64' },
    accountId: accountId ?? (await insertTestAccount(pool)),
  });
  return { ...row, plainSecret: secret };
}

const sample = (id: string) => ({ id, note: 'Zoë paid 1,5 € ☕\n', amount: '1.5', big: '12345678901234567890' });

/** An event as the service writes it, with a delivery for each webhook that wants it. @returns ids of the deliveries */
export async function insertTestEvent(
  pool: Pool,
  { accountId, type = 'payment.completed' }: { accountId: string; type?: EventType },
): Promise<string[]> {
  const resourceId = newId('tx');
  await insertEvent(pool, {
    ...{ accountId, type, resourceType: 'transaction', resourceId, agentId: null, data: sample(resourceId) },
  });
  const { rows } = await pool.query<{ id: string }>(
    `select d.id from webhook_deliveries d join events e on e.id = d.event_id where e.resource_id = $1`,
    [resourceId],
  );
  return rows.map(({ id }) => id);
}

/** A delivery to one webhook. */
export async function insertTestDelivery(
  pool: Pool,
  { webhook, kind = 'event' }: { webhook: WebhookRow; kind?: DeliveryKind },
): Promise<DeliveryRow> {
  const type = kind === 'test' ? 'webhook.test' : 'payment.completed';
  const { account_id: accountId } = webhook;
  const resourceId = newId('tx');
  const event = await storeEvent(pool, {
    ...{ accountId, type, resourceType: 'transaction', resourceId, agentId: null, data: sample(resourceId) },
  });
  const [row] = await insertDeliveries(pool, {
    ...{ accountId, webhookIds: [webhook.id], eventId: event.id, eventType: type, kind },
  });
  return row!;
}

/** Attempts of a delivery as they are stored, in their order. */
export async function attemptsOf(pool: Pool, deliveryId: string) {
  const { rows } = await pool.query<{
    number: number;
    status_code: number | null;
    response_time_ms: number | null;
    failure_reason: string | null;
    failure_message: string | null;
    response_body: string | null;
    created_at: Date;
  }>('select * from webhook_attempts where delivery_id = $1 order by number', [deliveryId]);
  return rows;
}
