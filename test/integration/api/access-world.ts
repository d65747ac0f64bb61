import type { Environment } from '../../../shared/api-key.ts';
import { createApiKey } from '../../../shared/db/api-keys.ts';
import { insertEvent } from '../../../shared/db/events.ts';
import { insertMember } from '../../../shared/db/members.ts';
import type { Role, Scope } from '../../../shared/domain/access.ts';
import { newId } from '../../../shared/ids.ts';
import { insertTestLedger } from '../../support/x402-ledger.ts';
import { callWith, type TestAccount, type TestApi } from './harness.ts';
import { askPeople } from './questions.ts';
import { createTestWebhook } from './webhook-calls.ts';
import { openSession } from './x402-calls.ts';

/** Identifiers by the part of a path that stands before them. */
export type Things = Readonly<Record<string, string>>;

export const emailOf = (role: Role) => `${role}@example.com`;
/** Whom every question to people asks. */
const approvers = (['viewer', 'approver', 'admin', 'owner'] as const).map(emailOf);

/** An agent of an account, and one of everything that belongs to it. */
export async function makeAgentWithThings(api: TestApi, account: TestAccount): Promise<Things & { agents: string }> {
  const { agent, transactionId, approvalId } = await askPeople(api, account, [{ approvers }]);
  const { rows } = await api.pool.query<{ id: string }>('select id from policies where agent_id = $1', [agent.agentId]);
  const session = await openSession(api, { account, agentId: agent.agentId });
  const { id: payments } = await insertTestLedger(api.pool, session);
  return {
    ...{ agents: agent.agentId, transactions: transactionId, approvals: approvalId, policies: rows[0]!.id },
    ...{ sessions: session.id, payments },
  };
}

/** One of everything that belongs to an account and to none of its agents. */
export async function makeThingsOfAccount({ pool }: TestApi, account: TestAccount): Promise<Things> {
  const limit = { type: 'spending_limit', rules: { daily_limit: '100' } };
  const template = await account.call('POST', '/api/v1/policy-templates', { name: newId('ptpl'), policies: [limit] });
  const { id: webhooks } = await createTestWebhook(account);
  const resourceId = newId('tx');
  await insertEvent(pool, {
    ...{ accountId: account.id, agentId: null, data: {}, type: 'payment.completed' },
    ...{ resourceType: 'transaction', resourceId },
  });
  const one = async (text: string, value: string) => (await pool.query<{ id: string }>(text, [value])).rows[0]!.id;
  const { row: key } = await createApiKey(pool, { accountId: account.id, name: 'spare', environment: 'sandbox' });
  const member = await insertMember(pool, {
    accountId: account.id,
    email: `${newId('mbr')}@example.com`,
    role: 'viewer',
  });
  return {
    ...{ 'policy-templates': template.body.id as string, webhooks, 'api-keys': key.id, members: member!.id },
    events: await one('select id from events where resource_id = $1', resourceId),
    deliveries: await one('select id from webhook_deliveries where webhook_id = $1', webhooks),
  };
}

/** A key of an account that is limited somehow. */
export async function limitedKey(
  { pool, url }: TestApi,
  {
    accountId,
    scopes = null,
    agentId = null,
    expiresAt = null,
    environment = 'sandbox',
  }: {
    accountId: string;
    scopes?: readonly Scope[] | null;
    agentId?: string | null;
    expiresAt?: Date | null;
    environment?: Environment;
  },
) {
  const { key, row } = await createApiKey(pool, {
    ...{ accountId, scopes, agentId, expiresAt, environment, name: 'limited' },
  });
  return { id: row.id, key, call: callWith(url, { 'x-api-key': key }) };
}
