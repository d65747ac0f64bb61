import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAllot } from '../../../activities/allot.ts';
import { createAwaitApproval } from '../../../activities/await-approval.ts';
import { createEvaluatePolicy } from '../../../activities/evaluate-policy.ts';
import { createFail, createSettle } from '../../../activities/settle.ts';
import type { EvmPrepared } from '../../../shared/chain/evm/prepared.ts';
import { approvalsOfPayment, moveApproval } from '../../../shared/db/approvals.ts';
import { storeAttempt } from '../../../shared/db/attempts.ts';
import { findMismatches } from '../../../shared/db/mismatches.ts';
import { deletePolicy, insertPolicy, replaceRules } from '../../../shared/db/policies.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { findTransaction, getTransaction } from '../../../shared/db/transactions.ts';
import { advanceApproval } from '../../../shared/domain/approval.ts';
import type { PolicyType } from '../../../shared/domain/policy/engine.ts';
import { newId } from '../../../shared/ids.ts';
import { importReceiptKey } from '../../../shared/receipt.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { insertTestAgent, insertTestPayment, signedBytes, type TestAgent } from '../../support/rows.ts';

const { privateKey } = generateKeyPairSync('ed25519');
const maxInFlight = 3;
const hourMs = 3_600_000;

/** The activities as two processes would have them, with a clock that the test turns. */
let database: TestDatabase;
let pool: Pool;
let now = new Date();
const clock = async () => now;
let evaluatePolicy: ReturnType<typeof createEvaluatePolicy>;
let allot: ReturnType<typeof createAllot>;
let awaitApproval: ReturnType<typeof createAwaitApproval>;
let settle: ReturnType<typeof createSettle>;
let fail: ReturnType<typeof createFail>;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
  const policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
  evaluatePolicy = createEvaluatePolicy({ pool, clock });
  allot = createAllot({ pool, clock, policyKey, maxInFlight });
  awaitApproval = createAwaitApproval({ pool, clock });
  settle = createSettle({ pool });
  fail = createFail({ pool });
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const unit = 1_000_000n;
const ether = 10n ** 18n;
const maxFee = 63_000_000_000_000n;
const prepared = ({
  usdc = 1_000_000n * unit,
  eth = 1_000n * ether,
  atBlock = 1,
}: {
  usdc?: bigint;
  eth?: bigint;
  atBlock?: number;
} = {}): EvmPrepared => ({
  outcome: 'ready',
  minedCount: 0,
  gas: '21000',
  maxFeePerGasWei: '3000000000',
  maxPriorityFeePerGasWei: '1000000000',
  maxFeeMinor: maxFee.toString(),
  atBlock,
  balanceMinor: usdc.toString(),
  nativeBalanceMinor: eth.toString(),
});

async function addPolicy(agent: TestAgent, type: PolicyType, rules: Record<string, unknown>) {
  const { id } = await insertPolicy(pool, { id: newId('pol'), ...agent, type, rules });
  return id;
}
const needsPerson = (agent: TestAgent, threshold = '10', timeout_seconds = 3600) =>
  addPolicy(agent, 'human_approval', {
    threshold,
    approvers: ['a@example.com'],
    timeout_seconds,
    required_approvals: 1,
  });
const pay = (agent: TestAgent, amount: bigint) => insertTestPayment(pool, agent, { amountMinor: amount * unit });
const row = async (id: string) => (await getTransaction(pool, { id }))!;
/** What people decide, as the api stores it. */
async function decide(
  id: string,
  {
    decision = 'approved',
    approver = 'a@example.com',
    note = null,
    threshold,
  }: { decision?: 'approved' | 'rejected'; approver?: string; note?: string | null; threshold?: string } = {},
) {
  for (const seen of await approvalsOfPayment(pool, { paymentId: id })) {
    if (seen.status !== 'pending' || (threshold !== undefined && seen.threshold !== threshold)) continue;
    const next = advanceApproval(seen, { kind: 'decide', approver, decision, note }, now);
    if ('refusal' in next) throw new Error(next.refusal);
    expect(await moveApproval(pool, { seen, ...next, now })).toBe(true);
  }
}
const statuses = async (id: string) => {
  const found = await approvalsOfPayment(pool, { paymentId: id });
  return found.map(({ status, approvers }) => `${status} ${approvers.join()}`).sort();
};
async function reservation(id: string) {
  const { rows } = await pool.query('select state, instant from reservations where payment_id = $1', [id]);
  return rows[0] as { state: string; instant: Date } | undefined;
}
async function countRows(table: string, id: string) {
  const column = table === 'holds' ? 'owner_id' : table === 'approvals' ? 'payment_id' : 'resource_id';
  const { rows } = await pool.query(`select count(*)::int as n from ${table} where ${column} = $1`, [id]);
  return rows[0].n as number;
}
/** As the watcher does once an attempt is deep enough. */
async function finish(id: string, { succeeded = true, block = 7 }: { succeeded?: boolean; block?: number } = {}) {
  const hash = `0x${id}`;
  await storeAttempt(pool, { transactionId: id, hash, raw: signedBytes, purpose: 'payment', version: 1 });
  await pool.query(
    `update attempts set block_number = $3, block_hash = '0xb', succeeded = $2, fee_minor = 21000, final_at = now()
     where hash = $1`,
    [hash, succeeded, block],
  );
  return settle(id);
}

describe('limits', () => {
  it('F23 count what is pending, waiting and confirmed, and not what has failed', async () => {
    const agent = await insertTestAgent(pool);
    await addPolicy(agent, 'spending_limit', { daily_limit: '100' });
    const [open, failed, confirmed] = [await pay(agent, 40n), await pay(agent, 30n), await pay(agent, 30n)];
    for (const id of [open, failed, confirmed]) expect((await evaluatePolicy(id)).outcome).toBe('allowed');
    await fail(failed, 'simulation_failed', 'It would revert.');
    await allot(confirmed, prepared());
    await finish(confirmed);
    const tooMuch = await pay(agent, 31n);
    expect((await evaluatePolicy(tooMuch)).outcome).toBe('denied');
    expect((await row(tooMuch)).decision?.violations[0]).toMatchObject({
      rule: 'daily_limit',
      limit: '100',
      attempted: '31',
      used: '70',
      remaining: '30',
    });
    expect((await evaluatePolicy(await pay(agent, 30n))).outcome).toBe('allowed');
    const states = await Promise.all([open, failed, confirmed, tooMuch].map(reservation));
    expect(states.map((each) => each?.state)).toEqual(['reserved', 'released', 'settled', undefined]);
  });

  it('F22 are not passed by one unit when 40 payments are decided at once by two workers', async () => {
    const agent = await insertTestAgent(pool);
    await addPolicy(agent, 'spending_limit', { daily_limit: '50' });
    await addPolicy(agent, 'velocity_control', { max_count: 7, window_seconds: 60 });
    const other = createPool({ url: database.url, application: 'second worker' });
    try {
      const second = createEvaluatePolicy({ pool: other, clock });
      const ids = await Promise.all(Array.from({ length: 40 }, (_, i) => pay(agent, i % 2 ? 1n : 9n)));
      await Promise.all(ids.flatMap((id, i) => (i % 2 ? [second(id), evaluatePolicy(id)] : [evaluatePolicy(id)])));
      const { rows } = await pool.query('select atoms, count from usage_open where agent_id = $1', [agent.agentId]);
      expect(rows[0].count).toBeLessThanOrEqual(7);
      expect(BigInt(rows[0].atoms)).toBeLessThanOrEqual(50n * 10n ** 36n);
      const allowed = (await Promise.all(ids.map(row))).filter(({ status }) => status === 'pending');
      expect(allowed).toHaveLength(rows[0].count);
    } finally {
      await other.end();
    }
  });

  it('free what they count to the millisecond after a day, from the second evaluation on', async () => {
    const agent = await insertTestAgent(pool);
    await addPolicy(agent, 'spending_limit', { daily_limit: '10' });
    const start = new Date('2026-01-01T00:00:00.123Z');
    now = start;
    const first = await pay(agent, 10n);
    await evaluatePolicy(first);
    now = new Date(start.getTime() + 5_000);
    await allot(first, prepared());
    await finish(first);
    now = new Date(start.getTime() + 5_000 + 24 * hourMs - 1);
    const early = await pay(agent, 10n);
    expect((await evaluatePolicy(early)).outcome).toBe('denied');
    expect((await row(early)).decision?.violations[0]?.resets_at).toBe('2026-01-02T00:00:05.123Z');
    now = new Date(start.getTime() + 5_000 + 24 * hourMs);
    expect((await evaluatePolicy(await pay(agent, 10n))).outcome).toBe('allowed');
    now = new Date();
  });

  it('deny a payment with the audit entry and the event in the same database transaction', async () => {
    const agent = await insertTestAgent(pool);
    await addPolicy(agent, 'spending_limit', { max_transaction_amount: '1' });
    const id = await pay(agent, 2n);
    await evaluatePolicy(id);
    await evaluatePolicy(id);
    const { rows } = await pool.query(`select type, data, xmin::text as xid from events where resource_id = $1`, [id]);
    expect(rows).toMatchObject([{ type: 'policy.violated', data: { transaction_id: id, limit: '1', attempted: '2' } }]);
    const { rows: audits } = await pool.query(
      `select action, result, metadata, xmin::text as xid from audit_inbox where resource_id = $1`,
      [id],
    );
    expect(audits).toMatchObject([{ action: 'transaction.evaluated', result: 'denied', metadata: { stage: 'first' } }]);
    const { rows: stored } = await pool.query('select xmin::text as xid from transactions where id = $1', [id]);
    expect(new Set([rows[0].xid, audits[0].xid, stored[0].xid]).size).toBe(1);
  });

  it('apply as they are at the second evaluation', async () => {
    const agent = await insertTestAgent(pool);
    const id = await pay(agent, 5n);
    await evaluatePolicy(id);
    await addPolicy(agent, 'address_control', { blocked_addresses: ['0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC'] });
    expect(await allot(id, prepared())).toEqual({ outcome: 'denied' });
    expect(await row(id)).toMatchObject({ status: 'failed', failure_code: 'policy_violation' });
    expect((await reservation(id))?.state).toBe('released');
    expect([await countRows('events', id), await countRows('holds', id)]).toEqual([1, 0]);
  });

  it('deny an agent without policies where its account says so', async () => {
    const agent = await insertTestAgent(pool);
    await pool.query('update accounts set default_deny = true where id = $1', [agent.accountId]);
    const id = await pay(agent, 1n);
    expect((await evaluatePolicy(id)).outcome).toBe('denied');
    expect((await row(id)).failure_message).toMatch(/default_deny/);
    await addPolicy(agent, 'spending_limit', { daily_limit: '10' });
    expect((await evaluatePolicy(await pay(agent, 1n))).outcome).toBe('allowed');
  });
});

describe('holds', () => {
  it('let one of two payments of the full balance pass, in two processes at once', async () => {
    const agent = await insertTestAgent(pool);
    const ids = [await pay(agent, 100n), await pay(agent, 100n)];
    for (const id of ids) await evaluatePolicy(id);
    const given = await Promise.all(ids.map((id) => allot(id, prepared({ usdc: 100n * unit }))));
    expect(given.map(({ outcome }) => outcome).toSorted()).toEqual(['allotted', 'denied']);
    const refused = await row(ids[given.findIndex(({ outcome }) => outcome === 'denied')]!);
    expect(refused).toMatchObject({ status: 'failed', failure_code: 'insufficient_funds' });
    expect(refused.failure_message).toMatch(/holds 100 of USDC, of which 100 are held/);
  });

  it('do not count a payment against itself when it is given its nonce again', async () => {
    const agent = await insertTestAgent(pool);
    const id = await pay(agent, 100n);
    await evaluatePolicy(id);
    for (let time = 0; time < 2; time += 1)
      expect((await allot(id, prepared({ usdc: 100n * unit }))).outcome).toBe('allotted');
  });

  it('keep the highest fee as well', async () => {
    const agent = await insertTestAgent(pool);
    const ids = [await pay(agent, 1n), await pay(agent, 1n)];
    for (const id of ids) await evaluatePolicy(id);
    expect((await allot(ids[0]!, prepared({ eth: 2n * maxFee - 1n }))).outcome).toBe('allotted');
    const second = await allot(ids[1]!, prepared({ eth: 2n * maxFee - 1n }));
    expect(second).toMatchObject({ outcome: 'unfunded', message: expect.stringContaining("the chain's own coin") });
    expect((await allot(ids[1]!, prepared({ eth: 2n * maxFee }))).outcome).toBe('allotted');
  });

  it('go on counting for balances that were read before the block of the payment', async () => {
    const agent = await insertTestAgent(pool);
    const [first, second, third] = [await pay(agent, 60n), await pay(agent, 60n), await pay(agent, 60n)];
    for (const id of [first, second, third]) await evaluatePolicy(id);
    await allot(first, prepared({ usdc: 100n * unit }));
    await finish(first, { block: 7 });
    expect((await allot(second, prepared({ usdc: 100n * unit, atBlock: 6 }))).outcome).toBe('denied');
    expect((await allot(third, prepared({ usdc: 100n * unit, atBlock: 7 }))).outcome).toBe('allotted');
  });

  it('end with the payment: a reverted one has taken its fee only', async () => {
    const agent = await insertTestAgent(pool);
    const id = await pay(agent, 60n);
    await evaluatePolicy(id);
    await allot(id, prepared({ usdc: 60n * unit }));
    await finish(id, { succeeded: false });
    const { rows } = await pool.query('select asset, amount_minor from holds where owner_id = $1', [id]);
    expect(rows).toEqual([{ asset: 'native', amount_minor: '21000' }]);
    expect((await reservation(id))?.state).toBe('released');
  });

  it('are not guessed from what an earlier version asked of the chain', async () => {
    const agent = await insertTestAgent(pool);
    const id = await pay(agent, 60n);
    await evaluatePolicy(id);
    const { atBlock: _, balanceMinor: __, nativeBalanceMinor: ___, ...old } = prepared();
    expect(await allot(id, old as EvmPrepared)).toEqual({ outcome: 'unprepared' });
  });
});

describe('a payment that needs a person', () => {
  it('waits with its limits and its money reserved, and gets no nonce', async () => {
    const agent = await insertTestAgent(pool);
    await needsPerson(agent);
    const id = await pay(agent, 11n);
    expect(await evaluatePolicy(id)).toEqual({ outcome: 'allowed', resume: 'prepare', answerWithinMs: hourMs });
    expect(await row(id)).toMatchObject({ status: 'pending', status_detail: 'awaiting_approval' });
    expect(await findTransaction(pool, { id, accountId: agent.accountId })).toMatchObject({
      approval_id: expect.stringMatching(/^apr_/),
      approval_status: 'pending',
    });
    expect(await allot(id, prepared())).toEqual({ outcome: 'awaiting' });
    expect(await awaitApproval(id)).toMatchObject({ outcome: 'waiting', leftMs: hourMs });
    expect([(await reservation(id))?.state, await countRows('holds', id)]).toEqual(['reserved', 2]);
    expect(await countRows('approvals', id)).toBe(1);
    await decide(id);
    expect(await awaitApproval(id)).toEqual({ outcome: 'go' });
    expect((await allot(id, prepared())).outcome).toBe('allotted');
  });

  it('does not wait at the threshold itself', async () => {
    const agent = await insertTestAgent(pool);
    await needsPerson(agent);
    const id = await pay(agent, 10n);
    expect(await evaluatePolicy(id)).toEqual({ outcome: 'allowed', resume: 'prepare' });
  });

  it('expires by its timeout, and releases what it took', async () => {
    const agent = await insertTestAgent(pool);
    await needsPerson(agent, '10', 60);
    const id = await pay(agent, 11n);
    await evaluatePolicy(id);
    await allot(id, prepared());
    const asked = now;
    now = new Date(asked.getTime() + 59_999);
    expect(await awaitApproval(id)).toMatchObject({ outcome: 'waiting', leftMs: 1 });
    now = new Date(asked.getTime() + 60_000);
    expect(await awaitApproval(id)).toEqual({ outcome: 'expired' });
    expect(await awaitApproval(id)).toEqual({ outcome: 'ended' });
    expect(await row(id)).toMatchObject({ status: 'failed', failure_code: 'approval_timeout' });
    expect([(await reservation(id))?.state, await countRows('holds', id)]).toEqual(['released', 0]);
    now = new Date();
  });

  it('goes on when the policy that asked is deleted', async () => {
    const agent = await insertTestAgent(pool);
    const policy = await needsPerson(agent);
    const id = await pay(agent, 11n);
    await evaluatePolicy(id);
    await allot(id, prepared());
    await deletePolicy(pool, { id: policy, accountId: agent.accountId });
    expect((await awaitApproval(id)).outcome).toBe('go');
    expect((await allot(id, prepared())).outcome).toBe('allotted');
    const { rows } = await pool.query('select status from approvals where payment_id = $1', [id]);
    expect(rows).toEqual([{ status: 'cancelled' }]);
  });

  it('goes on waiting while a schedule is closed, and is denied when its turn comes then', async () => {
    const agent = await insertTestAgent(pool);
    const limits = await addPolicy(agent, 'spending_limit', { daily_limit: '100' });
    await needsPerson(agent);
    const id = await pay(agent, 11n);
    await evaluatePolicy(id);
    await replaceRules(pool, { id: limits, accountId: agent.accountId, rules: { daily_limit: '5' } });
    expect((await awaitApproval(id)).outcome).toBe('waiting');
    await decide(id);
    expect((await allot(id, prepared())).outcome).toBe('denied');
    expect(await row(id)).toMatchObject({ failure_code: 'policy_violation' });
  });

  it('is asked about at the second evaluation where the policy is a new one', async () => {
    const agent = await insertTestAgent(pool);
    const id = await pay(agent, 11n);
    await evaluatePolicy(id);
    await needsPerson(agent);
    expect(await allot(id, prepared())).toEqual({ outcome: 'awaiting' });
    expect((await row(id)).status_detail).toBe('awaiting_approval');
    expect((await awaitApproval(id)).outcome).toBe('waiting');
  });

  it('needs every policy that asks', async () => {
    const agent = await insertTestAgent(pool);
    await needsPerson(agent, '10', 600);
    await needsPerson(agent, '5', 300);
    const id = await pay(agent, 11n);
    expect(await evaluatePolicy(id)).toMatchObject({ answerWithinMs: 300_000 });
    await decide(id, { threshold: '10' });
    expect(await allot(id, prepared())).toEqual({ outcome: 'awaiting' });
    expect((await awaitApproval(id)).outcome).toBe('waiting');
  });

  it('fails when its agent was deactivated meanwhile and its turn comes', async () => {
    const agent = await insertTestAgent(pool);
    await needsPerson(agent);
    const id = await pay(agent, 11n);
    await evaluatePolicy(id);
    await pool.query(`update agents set status = 'inactive' where id = $1`, [agent.agentId]);
    await decide(id);
    expect(await allot(id, prepared())).toEqual({ outcome: 'denied' });
    expect(await row(id)).toMatchObject({ failure_code: 'agent_inactive' });
  });
});

describe('a payment that people have answered', () => {
  async function asked({ approvers = ['a@example.com', 'b@example.com'], required_approvals = 1 } = {}) {
    const agent = await insertTestAgent(pool);
    const rules = { threshold: '10', approvers, timeout_seconds: 3600, required_approvals };
    const policy = await addPolicy(agent, 'human_approval', rules);
    const id = await pay(agent, 11n);
    await evaluatePolicy(id);
    await allot(id, prepared());
    const change = (more: Partial<typeof rules>) =>
      replaceRules(pool, { id: policy, accountId: agent.accountId, rules: { ...rules, ...more } });
    return { agent, policy, id, change };
  }

  it('fails by one rejection, with who said so and why, and releases what it took', async () => {
    const { id } = await asked({ required_approvals: 2 });
    await decide(id);
    await decide(id, { approver: 'b@example.com', decision: 'rejected', note: 'Not this supplier.' });
    expect(await awaitApproval(id)).toEqual({ outcome: 'rejected' });
    expect(await row(id)).toMatchObject({
      failure_code: 'approval_rejected',
      failure_message: 'b@example.com rejected the payment: Not this supplier.',
    });
    expect([(await reservation(id))?.state, await countRows('holds', id)]).toEqual(['released', 0]);
    expect(await awaitApproval(id)).toEqual({ outcome: 'ended' });
  });

  it('fails at its turn when it was rejected before it came to waiting, and nobody is asked again', async () => {
    const agent = await insertTestAgent(pool);
    await needsPerson(agent);
    const id = await pay(agent, 11n);
    await evaluatePolicy(id);
    await decide(id, { decision: 'rejected' });
    expect(await allot(id, prepared())).toEqual({ outcome: 'denied' });
    expect(await row(id)).toMatchObject({ failure_code: 'approval_rejected' });
    expect(await countRows('approvals', id)).toBe(1);
  });

  it('stays rejected when the policy that asked is deleted', async () => {
    const { id, policy, agent } = await asked();
    await decide(id, { decision: 'rejected' });
    await deletePolicy(pool, { id: policy, accountId: agent.accountId });
    expect(await awaitApproval(id)).toEqual({ outcome: 'rejected' });
  });

  it('waits for as many as are required', async () => {
    const { id } = await asked({ required_approvals: 2 });
    await decide(id);
    expect((await awaitApproval(id)).outcome).toBe('waiting');
    expect(await allot(id, prepared())).toEqual({ outcome: 'awaiting' });
    await decide(id, { approver: 'b@example.com' });
    expect(await awaitApproval(id)).toEqual({ outcome: 'go' });
    expect((await allot(id, prepared())).outcome).toBe('allotted');
  });

  it('is asked anew, and of the new people, when the policy names others while it waits', async () => {
    const { id, change } = await asked();
    await change({ approvers: ['c@example.com'] });
    expect(await awaitApproval(id)).toEqual({ outcome: 'go', leftMs: hourMs });
    expect(await allot(id, prepared())).toEqual({ outcome: 'awaiting' });
    expect(await statuses(id)).toEqual(['cancelled a@example.com,b@example.com', 'pending c@example.com']);
    expect((await awaitApproval(id)).outcome).toBe('waiting');
    await decide(id, { approver: 'c@example.com' });
    expect((await allot(id, prepared())).outcome).toBe('allotted');
  });

  it('is asked anew when the one who agreed was struck off before it was signed', async () => {
    const { id, change } = await asked();
    await decide(id);
    await change({ approvers: ['b@example.com'] });
    expect(await awaitApproval(id)).toEqual({ outcome: 'go' });
    expect(await allot(id, prepared())).toEqual({ outcome: 'awaiting' });
    expect(await statuses(id)).toEqual(['cancelled a@example.com,b@example.com', 'pending b@example.com']);
  });

  it('is asked of more people when a policy that asks others is added while it waits', async () => {
    const { id, agent } = await asked();
    const rules = { threshold: '1', approvers: ['d@example.com'], timeout_seconds: 60, required_approvals: 1 };
    await addPolicy(agent, 'human_approval', rules);
    expect((await awaitApproval(id)).outcome).toBe('go');
    expect(await allot(id, prepared())).toEqual({ outcome: 'awaiting' });
    expect(await awaitApproval(id)).toMatchObject({ outcome: 'waiting', leftMs: 60_000 });
    await decide(id, { approver: 'd@example.com', threshold: '1' });
    expect((await awaitApproval(id)).outcome).toBe('waiting');
  });

  it('keeps the answer when the one who gave it is still named, and needs no other', async () => {
    const { id, change } = await asked();
    await decide(id);
    await change({ approvers: ['a@example.com', 'c@example.com'], threshold: '5' });
    expect((await allot(id, prepared())).outcome).toBe('allotted');
  });

  it('is asked anew when more people are required than have agreed', async () => {
    const { id, change } = await asked();
    await decide(id);
    await change({ required_approvals: 2 });
    expect(await allot(id, prepared())).toEqual({ outcome: 'awaiting' });
  });

  it('goes on without an answer when the threshold is raised above it', async () => {
    const { id, change } = await asked();
    await change({ threshold: '11' });
    expect((await awaitApproval(id)).outcome).toBe('go');
    expect((await allot(id, prepared())).outcome).toBe('allotted');
    expect(await statuses(id)).toEqual(['cancelled a@example.com,b@example.com']);
  });

  it('tells each change once, with the question as it is then', async () => {
    const agent = await insertTestAgent(pool);
    await needsPerson(agent, '10', 60);
    const id = await pay(agent, 11n);
    await evaluatePolicy(id);
    await allot(id, prepared());
    now = new Date(now.getTime() + 60_000);
    await awaitApproval(id);
    now = new Date();
    const { rows } = await pool.query('select type, data from events where agent_id = $1 order by created_at, id', [
      agent.agentId,
    ]);
    expect(rows).toMatchObject([
      { type: 'approval.requested', data: { status: 'pending', amount: '11', token: 'USDC', transaction_id: id } },
      { type: 'approval.expired', data: { status: 'expired', amount: '11', approvers: ['a@example.com'] } },
      { type: 'payment.failed', data: { id, failure_code: 'approval_timeout', approval: { status: 'expired' } } },
    ]);
  });
});

describe('the daily check', () => {
  it('finds nothing after all that, and each kind of disagreement', async () => {
    expect(await findMismatches(pool)).toEqual([]);
    const agent = await insertTestAgent(pool);
    const [a, b, c, d] = [await pay(agent, 1n), await pay(agent, 1n), await pay(agent, 1n), await pay(agent, 1n)];
    for (const id of [a, b, c]) await evaluatePolicy(id);
    await needsPerson(agent, '0');
    await evaluatePolicy(d);
    await allot(d, prepared());
    await pool.query(
      `update transactions set status = 'failed', status_detail = 'failed', failure_code = 'dropped' where id = any($1)`,
      [[a, d]],
    );
    await pool.query(`delete from reservations where payment_id = $1`, [b]);
    await pool.query(`update reservations set state = 'settled', closed_at = now() where payment_id = $1`, [c]);
    const found = await findMismatches(pool);
    expect(found.map(({ kind, count }) => [kind, count])).toEqual([
      ['an open reservation of a payment that has ended', 2],
      ['a settled reservation of a payment that was not made', 1],
      ['a payment that was allowed and has no reservation', 1],
      ['an open hold of a payment or session that has ended', 2],
      ['an open question about a payment that has ended', 1],
      ['a sum of open reservations that is not the sum of its parts', 1],
      ['a sum of settled reservations that is not the sum of its parts', 4],
    ]);
    expect(found[1]?.examples).toEqual([c]);
  });
});
