import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createEvaluatePolicy } from '../../activities/evaluate-policy.ts';
import { createFail, createSettle } from '../../activities/settle.ts';
import { storeSigned } from '../../activities/store-signed.ts';
import { checkBooks } from '../../bench/crash/check-books.ts';
import { storeAttempt } from '../../shared/db/attempts.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { insertEvent, storeEvent } from '../../shared/db/events.ts';
import { insertPolicy } from '../../shared/db/policies.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { insertDeliveries } from '../../shared/db/webhook-deliveries.ts';
import { newId } from '../../shared/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { insertTestAgent, insertTestPayment, signedBytes, type TestAgent } from '../support/rows.ts';

/** What the proof by crashes finds in the database: nothing where all is well, and each kind of fault. */
describe('the books of a round of crashes', () => {
  let database: TestDatabase;
  let pool: Pool;
  let agent: TestAgent;
  beforeAll(async () => {
    database = await createTestDatabase();
    pool = createPool({ url: database.url, application: 'test' });
  });
  afterAll(async () => {
    await pool?.end();
    await database?.drop();
  });
  beforeEach(async () => {
    agent = await insertTestAgent(pool);
    await tell('agent.created', agent.agentId);
  });

  const tell = (type: Parameters<typeof insertEvent>[1]['type'], resourceId: string) =>
    insertEvent(pool, { ...agent, type, resourceType: 'transaction', resourceId, data: {} });
  const problems = () => checkBooks(pool, { agentIds: [agent.agentId] });
  const evaluatePolicy = (id: string) => createEvaluatePolicy({ pool, clock: databaseClock })(id);
  const attempt = (id: string) => ({ hash: `0x${id}`, raw: signedBytes, purpose: 'payment' as const, version: 1 });

  async function allowed() {
    const id = await insertTestPayment(pool, agent);
    await evaluatePolicy(id);
    return id;
  }
  async function pay(id: string) {
    await storeSigned(pool, { row: { id, account_id: agent.accountId, agent_id: agent.agentId }, ...attempt(id) });
    await finish(id);
  }
  async function finish(id: string) {
    await pool.query(
      `update attempts set block_number = 7, block_hash = '0xb', succeeded = true, fee_minor = 21000, final_at = now()
       where transaction_id = $1`,
      [id],
    );
    await createSettle({ pool })(id);
  }

  it('agree after a payment, a failure and a denial', async () => {
    await pay(await allowed());
    await createFail({ pool })(await allowed(), 'dropped', 'No.');
    const rules = { max_transaction_amount: '0.1' };
    await insertPolicy(pool, { id: newId('pol'), ...agent, type: 'spending_limit', rules });
    await allowed();
    expect(await problems()).toEqual([]);
  });

  it('miss an event, and find one too many', async () => {
    const [silent, loud] = [await allowed(), await allowed()];
    await storeAttempt(pool, { transactionId: silent, ...attempt(silent) });
    await finish(silent);
    await pay(loud);
    for (const type of ['payment.completed', 'payment.failed'] as const) await tell(type, loud);
    const found = await problems();
    for (const words of [
      `an event exists more than once: payment.completed of ${loud}, 2 times.`,
      `a payment is not told of as it is: ${silent} has 0 times payment.pending.`,
      `a payment is not told of as it is: ${loud} has 2 times payment.completed.`,
      `a payment is not told of as it is: ${loud} has 1 times payment.failed.`,
      `a signature has not just one audit entry: 0x${silent}.`,
    ])
      expect(found).toContain(`In the database ${words}`);
    expect(found).toHaveLength(5);
  });

  it('find deliveries of nothing, for nobody and twice', async () => {
    const { id: eventId } = await storeEvent(pool, {
      ...{ ...agent, type: 'webhook.test', resourceType: 'webhook', resourceId: newId('whk'), data: {} },
    });
    const delivery = { accountId: agent.accountId, eventType: 'webhook.test', kind: 'event' } as const;
    const webhookIds = [newId('whk')];
    const [first] = await insertDeliveries(pool, { ...delivery, webhookIds, eventId });
    await insertDeliveries(pool, { ...delivery, webhookIds, eventId });
    const [lost] = await insertDeliveries(pool, { ...delivery, webhookIds, eventId: newId('evt') });
    const found = (await problems()).join('\n');
    expect(found).toContain(`delivered twice to one webhook: ${eventId} to ${webhookIds[0]}`);
    for (const { id } of [first!, lost!]) expect(found).toContain(`for nobody, or of nothing: ${id}`);
  });
});
