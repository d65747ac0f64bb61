import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAllot } from '../../activities/allot.ts';
import { createEvaluatePolicy } from '../../activities/evaluate-policy.ts';
import { createFail, createSettle } from '../../activities/settle.ts';
import { signedBytes } from '../../bench/settlement-rows.ts';
import type { PreparedTransfer } from '../../shared/chain/adapter.ts';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { insertPolicy } from '../../shared/db/policies.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { getTransaction, insertTransaction } from '../../shared/db/transactions.ts';
import { newId } from '../../shared/ids.ts';
import { importReceiptKey } from '../../shared/receipt.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { counts, decide, type ModelPayment, type ModelPolicy, units } from '../support/policy-model.ts';
import { insertTestAgent, type TestAgent } from '../support/rows.ts';

/** Set it to run the same again. */
const seed = Number(process.env.PURSER_MODEL_SEED ?? Date.now() % 2 ** 31);
const agentsOneByOne = 25;
const paymentsOneByOne = 200;
const racesOfAgents = 8;
const paymentsInRace = 320;
const connections = 8;

const dayMs = 86_400_000;
const startMs = Date.parse('2026-03-01T12:00:00.000Z');
const tokens = {
  USDC: { decimals: 6, asset: '0x5FbDB2315678afecb367f032d93F642f64180aa3' },
  USDT: { decimals: 6, asset: '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512' },
  DAI: { decimals: 18, asset: '0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0' },
  ETH: { decimals: 18, asset: 'native' },
} as const;
type Symbol = keyof typeof tokens;

let database: TestDatabase;
let pool: Pool;
let policyKey: Awaited<ReturnType<typeof importReceiptKey>>;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, max: connections, application: 'test' });
  const { privateKey } = generateKeyPairSync('ed25519');
  policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

/** Numbers that look random and are the same for the same seed (mulberry32). */
function createRandom(start: number) {
  let state = start >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (from: number, to: number) => from + Math.floor(next() * (to - from + 1));
  const pick = <T>(from: readonly T[]): T => from[integer(0, from.length - 1)]!;
  return { next, integer, pick, chance: (share: number) => next() < share };
}
type Random = ReturnType<typeof createRandom>;

/** An amount between nothing and `most`, now and then with all the digits that the token has. */
function randomAmount(random: Random, { most, decimals }: { most: number; decimals: number }): string {
  const whole = random.integer(0, most - 1);
  if (random.chance(0.5)) return String(whole + 1);
  const digits = random.chance(0.5) ? decimals : 2;
  return `${whole}.${String(random.integer(1, 9)).padStart(digits, '0')}`;
}

function randomPolicies(random: Random): ModelPolicy[] {
  const limit = (most: number) => String(random.integer(Math.ceil(most / 4), most));
  const token = () => random.pick([undefined, undefined, 'stablecoins', 'USDC', 'DAI', 'ETH'] as const);
  return Array.from({ length: random.integer(1, 4) }, (): ModelPolicy => {
    const id = newId('pol');
    const bound = token();
    const bind = bound === undefined ? {} : { token: bound };
    const kind = random.integer(0, 9);
    if (kind < 2)
      return {
        id,
        type: 'velocity_control',
        rules: { max_count: random.integer(2, 20), window_seconds: random.pick([1, 60, 3_600, 86_400, 40 * 86_400]) },
      };
    if (kind === 2) return { id, type: 'human_approval', rules: { threshold: limit(40), ...bind } };
    return {
      id,
      type: 'spending_limit',
      rules: {
        ...(random.chance(0.3) ? { max_transaction_amount: limit(60) } : {}),
        ...(random.chance(0.4) ? { monthly_limit: limit(3_000) } : {}),
        daily_limit: limit(400),
        ...bind,
      },
    };
  });
}

async function addPolicies(agent: TestAgent, policies: readonly ModelPolicy[]): Promise<void> {
  const asking = { approvers: ['a@example.com'], timeout_seconds: 604_800, required_approvals: 1 };
  for (const { id, type, rules } of policies) {
    const all = type === 'human_approval' ? { ...rules, ...asking } : rules;
    await insertPolicy(pool, { id, accountId: agent.accountId, agentId: agent.agentId, type, rules: all });
    // Policies are judged in the order of their creation, which has milliseconds only.
    await pool.query(`update policies set created_at = created_at + $2 * interval '1 second' where id = $1`, [
      id,
      policies.findIndex((each) => each.id === id),
    ]);
  }
}

async function addPayment(agent: TestAgent, random: Random): Promise<ModelPayment> {
  const token = random.pick(Object.keys(tokens) as Symbol[]);
  const { decimals, asset } = tokens[token];
  const amount = units(randomAmount(random, { most: 60, decimals }));
  const id = newId('tx');
  await insertTransaction(pool, {
    ...agent,
    id,
    chain: 'eip155:31337',
    token,
    asset,
    decimals,
    amountMinor: amount / 10n ** BigInt(18 - decimals),
    fromAddress: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
    toAddress: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
    memo: undefined,
  });
  return { id, token, amount, state: 'new', instantMs: 0 };
}

/** The real steps of a payment, with the test's clock. */
function createSteps(clock: () => number) {
  const deps = { pool, clock: async () => new Date(clock()), policyKey, maxInFlight: 1_000_000 };
  const evaluate = createEvaluatePolicy(deps);
  const allot = createAllot(deps);
  const settle = createSettle(deps);
  const fail = createFail(deps);
  const rich = '1000000000000000000000000000000';
  const prepared: PreparedTransfer = {
    ...{ outcome: 'ready', minedCount: 0, gas: '21000', maxFeePerGasWei: '2', maxPriorityFeePerGasWei: '1' },
    ...{ maxFeeMinor: '42000', atBlock: 0, balanceMinor: rich, nativeBalanceMinor: rich },
  };
  return {
    evaluate,
    fail,
    allot: (id: string) => allot(id, prepared),
    approve: (id: string) =>
      pool.query(
        `update approvals set status = 'approved', decided_at = now(), decisions = jsonb_build_array(jsonb_build_object(
           'approver', approvers[1], 'decision', 'approved', 'note', null, 'decided_at', now()))
         where payment_id = $1 and status = 'pending'`,
        [id],
      ),
    /** As the watcher does once an attempt is deep enough. */
    async end(id: string, succeeded: boolean, purpose: 'payment' | 'noop' = 'payment') {
      await pool.query(
        `insert into attempts (chain, hash, transaction_id, raw, block_number, block_hash, succeeded, fee_minor, final_at,
                               purpose)
         values ('eip155:31337', '0x' || $1, $1, $4, 1, '0xb', $2, 1, now(), $3)`,
        [id, succeeded, purpose, signedBytes],
      );
      return settle(id);
    },
  };
}

/** One agent's life, step by step, compared with the model after each. */
async function liveOneByOne(random: Random): Promise<void> {
  const agent = await insertTestAgent(pool);
  const policies = randomPolicies(random);
  await addPolicies(agent, policies);
  let nowMs = startMs;
  const steps = createSteps(() => nowMs);
  const payments: ModelPayment[] = [];
  const told = (step: string, payment: ModelPayment) =>
    `seed ${seed}, ${step} of ${payment.id} at ${nowMs}: ${JSON.stringify(policies)}`;
  const modelSays = (payment: ModelPayment) => decide({ payment, policies, payments, nowMs });

  async function evaluateNew(): Promise<void> {
    const payment = await addPayment(agent, random);
    const expected = modelSays(payment);
    // Sometimes twice at once, as two workers may after one was taken for dead.
    await Promise.all(Array.from({ length: random.chance(0.1) ? 2 : 1 }, () => steps.evaluate(payment.id)));
    const { decision, status } = (await getTransaction(pool, { id: payment.id }))!;
    expect(decision?.outcome, told('evaluation', payment)).toBe(expected.outcome);
    const broken = decision!.violations.map((each) => [each.policy_id, each.rule, each.used, each.remaining]);
    expect(broken, told('violations', payment)).toEqual(expected.broken);
    expect(status).toBe(expected.outcome === 'deny' ? 'failed' : 'pending');
    payments.push(payment);
    payment.state = expected.outcome === 'deny' ? 'denied' : 'open';
    payment.instantMs = nowMs;
  }

  const allotted = new Set<string>();
  async function allotOld(payment: ModelPayment): Promise<void> {
    const expected = modelSays(payment);
    let given = await steps.allot(payment.id);
    if (expected.outcome === 'require_approval') {
      if (!allotted.has(payment.id)) expect(given.outcome, told('second evaluation', payment)).toBe('awaiting');
      await steps.approve(payment.id);
      given = await steps.allot(payment.id);
    }
    // Denied after others have gone past its nonce: it fails once that is used up.
    const isFilling = expected.outcome === 'deny' && allotted.has(payment.id) && given.outcome === 'signed';
    if (isFilling) await steps.end(payment.id, true, 'noop');
    else
      expect(given.outcome, told('second evaluation', payment)).toBe(
        expected.outcome === 'deny' ? 'denied' : 'allotted',
      );
    if (expected.outcome === 'deny') payment.state = 'released';
    else allotted.add(payment.id);
    payment.instantMs = nowMs;
  }

  async function endOld(payment: ModelPayment): Promise<void> {
    const isSent = allotted.has(payment.id);
    const succeeds = isSent && random.chance(0.8);
    if (isSent) await steps.end(payment.id, succeeds);
    else await steps.fail(payment.id, 'simulation_failed', 'It would revert.');
    payment.state = succeeds ? 'settled' : 'released';
  }

  /** The moment at which a settled payment leaves one of the windows, or one beside it: there it counts no more. */
  function atAnEdge(): number {
    const windowsMs = policies.flatMap(({ type, rules }) =>
      type === 'velocity_control' ? [rules.window_seconds! * 1000] : [dayMs, 30 * dayMs],
    );
    const settled = payments.filter(({ state }) => state === 'settled').slice(-40);
    const edgesMs = settled
      .map(({ instantMs }) => instantMs + random.pick(windowsMs) + random.integer(-1, 1))
      .filter((edgeMs) => edgeMs > nowMs && edgeMs < nowMs + 2 * dayMs);
    return edgesMs.length > 0 ? random.pick(edgesMs) : nowMs;
  }

  for (let made = 0; made < paymentsOneByOne; ) {
    nowMs += random.pick([0, 1, 999, 60_000, 3_600_000, 5 * 3_600_000, random.chance(0.1) ? 3 * dayMs : 1]);
    if (random.chance(0.03)) nowMs -= random.pick([1, 60_000, 2 * 3_600_000]);
    if (random.chance(0.02)) nowMs = nowMs - (nowMs % dayMs) + 2 * dayMs;
    if (random.chance(0.15)) nowMs = atAnEdge();
    const open = payments.filter(({ state }) => state === 'open');
    const choice = random.next();
    if (choice < 0.45 || open.length === 0) {
      await evaluateNew();
      made += 1;
    } else if (choice < 0.75) await allotOld(random.pick(open));
    else await endOld(random.pick(open));
  }
}

/** Many payments of one agent at once; returns what became of them. */
async function race(random: Random): Promise<void> {
  const agent = await insertTestAgent(pool);
  const policies = randomPolicies(random).filter(({ type }) => type !== 'human_approval');
  await addPolicies(agent, policies);
  let nowMs = startMs;
  // Called under the agent's lock, so that it goes forward from one decision to the next.
  const steps = createSteps(() => {
    nowMs += random.pick([0, 1, 1_000, 600_000]);
    return nowMs;
  });
  const queue = await Promise.all(Array.from({ length: paymentsInRace }, () => addPayment(agent, random)));
  const all = [...queue];
  async function work(): Promise<void> {
    for (let payment = queue.pop(); payment; payment = queue.pop()) {
      await Promise.all(Array.from({ length: random.chance(0.1) ? 2 : 1 }, () => steps.evaluate(payment.id)));
      if (random.chance(0.2)) await steps.fail(payment.id, 'simulation_failed', 'It would revert.');
      if (random.chance(0.2)) continue;
      const given = await steps.allot(payment.id);
      if (given.outcome === 'allotted' && random.chance(0.8)) await steps.end(payment.id, random.chance(0.8));
    }
  }
  await Promise.all(Array.from({ length: connections }, work));
  const { rows } = await pool.query<{ transaction_id: string; state: string; instant: Date }>(
    'select payment_id as transaction_id, state, instant from reservations where agent_id = $1',
    [agent.agentId],
  );
  const stateOf = { reserved: 'open', settled: 'settled', released: 'released' } as const;
  const accepted = all.flatMap((payment): ModelPayment[] => {
    const row = rows.find((each) => each.transaction_id === payment.id);
    if (!row) return [];
    return [{ ...payment, state: stateOf[row.state as keyof typeof stateOf], instantMs: row.instant.getTime() }];
  });
  expect(accepted.length).toBeGreaterThan(0);
  // Every accepted payment must have had room at its own instant, beside all that were accepted up to then.
  for (const payment of accepted.filter(({ state }) => state === 'open' || state === 'settled')) {
    const before = accepted.filter(
      (each) => each.instantMs <= payment.instantMs && each.state !== 'released' && each.id !== payment.id,
    );
    const settled = before.map((each) => ({ ...each, state: 'settled' as const }));
    const room = decide({ payment, policies, payments: settled, nowMs: payment.instantMs });
    expect(room.broken, `seed ${seed}, ${payment.id}: ${JSON.stringify(policies)}`).toEqual([]);
  }
}

describe(`limits beside a model that adds up everything anew (seed ${seed})`, () => {
  it(`decide ${agentsOneByOne * paymentsOneByOne} payments exactly as the model does, one by one for each agent`, {
    timeout: 300_000,
  }, async () => {
    const random = createRandom(seed);
    const lives = Array.from({ length: agentsOneByOne }, () => createRandom(random.integer(0, 2 ** 31)));
    async function work(): Promise<void> {
      for (let life = lives.pop(); life; life = lives.pop()) await liveOneByOne(life);
    }
    await Promise.all(Array.from({ length: connections }, work));
  });

  it(`F22 let nothing pass by one unit when ${connections} connections decide ${racesOfAgents * paymentsInRace} payments at once`, {
    timeout: 300_000,
  }, async () => {
    const random = createRandom(seed + 1);
    for (let turn = 0; turn < racesOfAgents; turn += 1) await race(createRandom(random.integer(0, 2 ** 31)));
  });

  it('leave sums that are those of their parts, and nothing that does not match its payment', async () => {
    expect(await findMismatches(pool)).toEqual([]);
  });

  it('are told by a model that forgets nothing: an open payment counts at any age', () => {
    const old: ModelPayment = { id: 'a', token: 'USDC', amount: 1n, state: 'open', instantMs: 0 };
    expect(counts(old, { nowMs: 100 * dayMs, windowMs: 1 })).toBe(true);
    expect(counts({ ...old, state: 'settled' }, { nowMs: dayMs, windowMs: dayMs })).toBe(false);
  });
});
