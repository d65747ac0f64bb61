import { bySystem } from '../../shared/db/audit.ts';
import { createPool, inTransaction } from '../../shared/db/pool.ts';
import { openAccount } from '../../shared/open-account.ts';
import { type Answer, createTestClient, eventually } from '../support/client.ts';
import type { Merchant } from '../support/merchant.ts';
import type { OwnStack } from '../support/own-stack.ts';
import { newSecret } from '../support/webhook-rows.ts';

const chain = 'eip155:31337';
const recipient = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
const soon = { timeoutMs: 60_000 };

/** Words that mean something in an installation, by what they are; one that nothing has yet is no list. */
export type Words = Readonly<Record<string, readonly string[]>>;

/** Makes one of everything, and more where it ends in different ways. @returns how to name it all */
export async function makeThings(stack: OwnStack, { merchant }: { merchant: Merchant }): Promise<Words> {
  const client = createTestClient(stack);
  const make = async (path: string, body: unknown): Promise<Answer['body']> => {
    const answer = await client.post(path, body);
    if (answer.status !== 200) throw new Error(`POST ${path} was answered ${JSON.stringify(answer.body)}.`);
    return answer.body;
  };
  const limited = await make('/agents', { agent_name: 'limited', chain, metadata: '{"team":"ops"}' });
  const free = await make('/agents', { agent_name: 'free', chain });
  const webhook = await make('/webhooks', { url: `${merchant.url}/events`, secret: newSecret() });
  await make('/policies', { agent_id: limited.id, type: 'spending_limit', rules: { daily_limit: '100' } });
  const rules = { threshold: '10', approvers: ['owner@example.com'] };
  await make('/policies', { agent_id: limited.id, type: 'human_approval', rules });
  await make('/policy-templates', {
    name: 'team',
    policies: [{ type: 'spending_limit', rules: { daily_limit: '5' } }],
  });
  const session = await make('/x402/sessions', { agent_id: free.id, budget_limit: '50', chain, ttl_seconds: 86_400 });
  await make(`/x402/sessions/${session.id}/pay`, { target_url: `${merchant.url}/data` });
  const pay = (agentId: string, amount: string) =>
    client.post('/transactions', {
      ...{ agent_id: agentId, direction: 'outbound', type: 'transfer', chain, token: 'USDC' },
      ...{ to_address: recipient, amount },
    });
  await pay(free.id, '1');
  await pay(limited.id, '20');
  await pay(limited.id, '200');
  const ids = async (path: string, name = 'id') => {
    const { body } = await client.get(path);
    return (body.data as Record<string, string>[]).map((one) => one[name]!);
  };
  const some = (path: string, name?: string) =>
    eventually(
      () => ids(path, name),
      (found) => found.length > 0,
      soon,
    );
  return {
    agents: await ids('/agents'),
    chains: [chain],
    tokens: ['USDC', 'ETH'],
    addresses: [recipient, free.wallet.address],
    secrets: [newSecret()],
    targets: [`${merchant.url}/data`, `${merchant.url}/free`, 'https://api.example.com/data'],
    transactions: await some('/transactions'),
    approvals: await some('/approvals'),
    policies: await ids('/policies'),
    templates: await ids('/policy-templates'),
    webhooks: [webhook.id],
    deliveries: await some(`/webhooks/${webhook.id}/deliveries`),
    sessions: [session.id],
    payments: await some(`/x402/sessions/${session.id}/payments`, 'ledger_id'),
    events: await some('/events'),
  };
}

/** Opens another account, which must never see what the first one has. */
export async function openOther({ databaseUrl }: OwnStack): Promise<{ accountId: string; key: string }> {
  const pool = createPool({ url: databaseUrl, max: 1, application: 'test' });
  try {
    return await inTransaction(pool, (db) =>
      openAccount(db, {
        ...{ name: 'Others', plan: 'enterprise', ownerEmail: 'other@example.com', keyName: 'theirs' },
        ...{ environment: 'sandbox', acting: bySystem },
      }),
    );
  } finally {
    await pool.end();
  }
}
