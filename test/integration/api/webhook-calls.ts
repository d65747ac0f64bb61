import { randomBytes } from 'node:crypto';
import type { TestAccount, TestApi } from './harness.ts';

export const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;

let count = 0;

/** A valid request to register a webhook. */
export function webhookBody(more: Record<string, unknown> = {}) {
  count += 1;
  return { url: `https://example.com/hooks/${count}`, secret: newSecret(), ...more };
}

/** Registers one. */
export async function createTestWebhook(account: TestAccount, more: Record<string, unknown> = {}) {
  const { status, body } = await account.call('POST', '/api/v1/webhooks', webhookBody(more));
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
}

/** What the audit log says of a webhook or of one of its deliveries, in the order in which it happened. */
export async function auditOf(api: TestApi, resourceId: string) {
  const { rows } = await api.pool.query(
    `select action, actor_type, actor_name, resource_type, result, ip_address, request_id, changes, metadata
     from (select id, action, actor_type, actor_name, resource_type, resource_id, result, ip_address, request_id,
                  changes, metadata, created_at from audit_inbox
           union all
           select id, action, actor_type, actor_name, resource_type, resource_id, result, ip_address, request_id,
                  changes, metadata, created_at from audit_logs) entries
     where resource_id = $1 order by created_at, id`,
    [resourceId],
  );
  return rows;
}
