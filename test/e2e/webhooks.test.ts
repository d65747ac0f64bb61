import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureAccount } from '../../dev/account.ts';
import { ensureAccountKey } from '../../dev/account-key.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import type { EventType } from '../../shared/domain/events.ts';
import { certificate } from '../support/certificate.ts';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { readPlan, writePlan } from '../support/crash-plan.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';
import { startReceiver, type TestReceiver, verify } from '../support/receiver.ts';
import { insertTestEvent, newSecret } from '../support/webhook-rows.ts';

const chain = 'eip155:31337';
const approver = 'treasurer@example.com';
const soon = { timeoutMs: 180_000 };

let dir: string;
let stack: OwnStack;
let client: TestClient;
let pool: Pool;
let accountId: string;
let agentId: string;
const receivers: TestReceiver[] = [];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'purser-webhooks-'));
  writeFileSync(join(dir, 'ca.pem'), certificate.cert);
  stack = await startOwnStack({ env: { PURSER_TARGET_CA_FILE: join(dir, 'ca.pem') } });
  client = createTestClient(stack);
  pool = createPool({ url: stack.databaseUrl, max: 2, application: 'test' });
  accountId = (await pool.query<{ id: string }>('select id from accounts')).rows[0]!.id;
  agentId = (await client.post('/agents', { agent_name: 'buyer', chain })).body.id;
});
afterAll(async () => {
  for (const receiver of receivers) await receiver.stop();
  await pool?.end();
  await stack?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** A receiver that is registered by the API for some kinds of events. */
async function register(events: readonly EventType[], { by = client }: { by?: TestClient } = {}) {
  const receiver = await startReceiver();
  receivers.push(receiver);
  const secret = newSecret();
  const { status, body } = await by.post('/webhooks', { url: `${receiver.url}/events`, events, secret });
  expect([status, body.status]).toEqual([200, 'active']);
  const all = () => receiver.received.map((one) => verify(secret, one));
  const told = (type: EventType, about: string) =>
    eventually(
      async () => all().filter((event) => event.type === type && (event.data as { id: string }).id === about),
      (found) => found.length > 0,
      soon,
    );
  return { id: body.id as string, receiver, told, events: all };
}

async function pay(by = agentId): Promise<string> {
  const { status, body } = await client.post('/transactions', {
    ...{ agent_id: by, direction: 'outbound', type: 'transfer', chain, token: 'USDC', amount: '1' },
    to_address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  });
  expect(status).toBe(200);
  return body.id;
}
const isPaid = (id: string) =>
  eventually(
    async () => (await client.get(`/transactions/${id}`)).body,
    ({ status }) => status === 'confirmed',
    soon,
  );

describe('a payment', () => {
  it('F39: is told to a webhook once when it is sent and once when it is paid, signed, as the API shows it', async () => {
    const hook = await register(['payment.pending', 'payment.completed']);
    const id = await pay();
    const paid = await isPaid(id);
    const [pending] = await hook.told('payment.pending', id);
    const [completed] = await hook.told('payment.completed', id);
    expect(completed).toMatchObject({
      livemode: false,
      api_version: '1.0.0',
      data: { id, status: 'confirmed', hash: paid.hash },
    });
    const history = await eventually(
      async () => (await client.get(`/webhooks/${hook.id}/deliveries`)).body,
      ({ data }) => data.length === 2 && data.every(({ status }: { status: string }) => status === 'succeeded'),
      soon,
    );
    expect(history.data.map(({ event_id }: { event_id: string }) => event_id).sort()).toEqual(
      [pending!.id, completed!.id].sort(),
    );
    for (const event of [pending!, completed!]) expect((await client.get(`/events/${event.id}`)).body).toEqual(event);
    expect(hook.receiver.received).toHaveLength(2);
  });

  it('is told no more once that was noted, though the worker dies before it can say so', async () => {
    // Other webhooks' deliveries would be struck in its place.
    for (const each of (await client.get('/webhooks')).body.data) await client.delete(`/webhooks/${each.id}`);
    const hook = await register(['payment.completed']);
    writePlan(stack.planFile, { victim: 'worker', left: [{ when: 'after', step: 'deliverWebhook' }] });
    hook.receiver.answer((response, _request, count) => void response.writeHead(count === 1 ? 500 : 200).end());
    const id = await pay();
    await hook.told('payment.completed', id);
    const { data } = await eventually(
      async () => (await client.get(`/webhooks/${hook.id}/deliveries`)).body,
      (body) => body.data[0]?.status === 'succeeded',
      soon,
    );
    expect(data[0]).toMatchObject({ attempt: 2, attempts: [{ status_code: 500 }, { status_code: 200 }] });
    expect(readPlan(stack.planFile).left).toEqual([]);
    // Its activity is repeated when the dead worker's time is over.
    const connection = await Connection.connect({ address: stack.temporalAddress });
    expect(await new Client({ connection }).workflow.getHandle(data[0].id).result()).toEqual({ status: 'succeeded' });
    await connection.close();
    expect(hook.receiver.received).toHaveLength(2);
    expect(new Set(hook.receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  });
});

describe('a receiver that hangs, with hundreds of events that it is to be told', () => {
  it('delays no payment, no mail to an approver, and no delivery of its own account or of another one', async () => {
    const hanging = await register(['agent.low_gas']);
    hanging.receiver.answer(() => {});
    for (let index = 0; index < 300; index += 1) await insertTestEvent(pool, { accountId, type: 'agent.low_gas' });
    await eventually(
      async () => hanging.receiver.received.length,
      (count) => count >= 25,
      soon,
    );

    const hook = await register(['payment.completed', 'approval.requested']);
    const id = await pay();
    await isPaid(id);
    await hook.told('payment.completed', id);

    const asking = await client.post('/agents', { agent_name: 'asking', chain });
    const rules = { threshold: '0', approvers: [approver] };
    await client.post('/policies', { agent_id: asking.body.id, type: 'human_approval', rules });
    const asked = await pay(asking.body.id);
    const approval = await eventually(
      async () => (await client.get(`/approvals?agent_id=${asking.body.id}`)).body.data[0],
      (found) => found?.notices[0]?.status === 'sent',
      soon,
    );
    expect(approval.transaction_id).toBe(asked);
    await hook.told('approval.requested', approval.id);

    const other = await ensureAccount({ databaseUrl: stack.databaseUrl, known: undefined });
    await ensureAccountKey({
      ...{ temporalAddress: stack.temporalAddress, namespace: 'default' },
      accountId: other.accountId,
    });
    const theirs = createTestClient({ baseUrl: stack.baseUrl, apiKey: other.apiKey });
    const theirHook = await register(['agent.created'], { by: theirs });
    const agent = await theirs.post('/agents', { agent_name: 'theirs', chain });
    await theirHook.told('agent.created', agent.body.id);
    // It was never told of anybody else's.
    expect(theirHook.receiver.received).toHaveLength(1);

    const { body } = await client.get(`/webhooks/${hanging.id}/deliveries?status=succeeded`);
    expect(body.total).toBe(0);
    await hanging.receiver.stop();
    await pool.query(`update webhooks set status = 'inactive' where id = $1`, [hanging.id]);
  });
});

describe('a test of a receiver', () => {
  it('is one attempt, whose outcome is the answer', async () => {
    const hook = await register(['payment.failed']);
    const taken = await client.post(`/webhooks/${hook.id}/test`, undefined);
    expect(taken).toMatchObject({
      status: 200,
      body: { kind: 'test', status: 'succeeded', attempt: 1, status_code: 200 },
    });
    hook.receiver.answer((response) => void response.writeHead(500).end('not today'));
    const refused = await client.post(`/webhooks/${hook.id}/test`, undefined);
    expect(refused.body).toMatchObject({
      ...{ status: 'failed', attempt: 1, status_code: 500, failure_reason: 'non_2xx', response_body: 'not today' },
      next_attempt_at: null,
    });
    const tests = hook.events().filter(({ type }) => type === 'webhook.test');
    expect(tests).toHaveLength(2);
  });

  it('and a delivery that is asked for once more carry the ids that they should', async () => {
    const hook = await register(['payment.completed']);
    const id = await pay();
    await isPaid(id);
    const [event] = await hook.told('payment.completed', id);
    const [{ id: deliveryId }] = (await client.get(`/webhooks/${hook.id}/deliveries`)).body.data;
    const again = await client.post(`/webhooks/${hook.id}/deliveries/${deliveryId}/redeliver`, undefined);
    expect(again).toMatchObject({ status: 200, body: { kind: 'redelivery', event_id: event!.id } });
    await eventually(
      async () => hook.receiver.received.length,
      (count) => count === 2,
      soon,
    );
    const [first, second] = hook.receiver.received;
    expect(second!.headers['webhook-id']).toBe(first!.headers['webhook-id']);
    expect(second!.body).toBe(first!.body);
  });
});
