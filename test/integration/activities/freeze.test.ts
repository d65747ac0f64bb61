import { generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createAllot } from '../../../activities/allot.ts';
import { createAllotReplacement } from '../../../activities/allot-replacement.ts';
import { createEvaluatePolicy } from '../../../activities/evaluate-policy.ts';
import { createIssueAuthorization } from '../../../activities/issue-authorization.ts';
import { createStampAuthorization } from '../../../activities/stamp-authorization.ts';
import type { EvmPrepared } from '../../../shared/chain/evm/prepared.ts';
import { storeAttempt } from '../../../shared/db/attempts.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import {
  blockingFreeze,
  currentFreeze,
  type FreezeSubject,
  freeze,
  listFreezes,
  markTold,
  readFreezes,
  takeThawed,
  unfreeze,
} from '../../../shared/db/freezes.ts';
import { createPool, inTransaction, type Pool } from '../../../shared/db/pool.ts';
import { wishFor } from '../../../shared/db/slots.ts';
import { getTransaction } from '../../../shared/db/transactions.ts';
import { getX402Payment } from '../../../shared/db/x402-payments.ts';
import { endUnsent } from '../../../shared/end-unsent.ts';
import { importReceiptKey, verifyReceipt } from '../../../shared/receipt.ts';
import { bestOf } from '../../support/best-of.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { insertTestAgent, insertTestPayment, signedBytes, type TestAgent } from '../../support/rows.ts';
import { insertTestLedger, insertTestSession } from '../../support/x402-ledger.ts';
import { createAdmin } from '../api/admin-calls.ts';

const clock = databaseClock;
const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const why = { reason: 'a test', by: 'operator' };

let database: TestDatabase;
let pool: Pool;
let policyKey: Awaited<ReturnType<typeof importReceiptKey>>;
let evaluatePolicy: ReturnType<typeof createEvaluatePolicy>;
let allot: ReturnType<typeof createAllot>;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
  policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
  evaluatePolicy = createEvaluatePolicy({ pool, clock });
  allot = createAllot({ pool, clock, policyKey, maxInFlight: 1_000 });
});
afterEach(() => pool.query('delete from freezes; delete from frozen_payments'));
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const prepared: EvmPrepared = {
  outcome: 'ready',
  minedCount: 0,
  gas: '21000',
  maxFeePerGasWei: '3000000000',
  maxPriorityFeePerGasWei: '1000000000',
  maxFeeMinor: '63000000000000',
  atBlock: 1,
  balanceMinor: '1000000000000',
  nativeBalanceMinor: '1000000000000000000000',
};
const put = (subject: FreezeSubject) => inTransaction(pool, (db) => freeze(db, { ...subject, ...why }));
const lift = (subject: FreezeSubject) => inTransaction(pool, (db) => unfreeze(db, subject));
const row = async (id: string) => (await getTransaction(pool, { id }))!;

async function judged(agent: TestAgent): Promise<string> {
  const id = await insertTestPayment(pool, agent);
  expect((await evaluatePolicy(id)).outcome).toBe('allowed');
  return id;
}

const scopes: Record<FreezeSubject['scope'], (agent: TestAgent) => FreezeSubject> = {
  installation: () => ({ scope: 'installation' }),
  account: ({ accountId }) => ({ scope: 'account', accountId }),
  agent: ({ accountId, agentId }) => ({ scope: 'agent', accountId, agentId }),
};

describe('what is frozen', () => {
  it.each(Object.entries(scopes))('gives no place and no receipt: %s', async (scope, subjectOf) => {
    const agent = await insertTestAgent(pool);
    const id = await judged(agent);
    await put(subjectOf(agent));
    expect(await allot(id, prepared)).toEqual({ outcome: 'frozen' });
    expect(await allot(id, prepared)).toEqual({ outcome: 'frozen' });
    const waiting = await row(id);
    expect([waiting.status, waiting.nonce]).toEqual(['pending', null]);
    expect(waiting.notice).toMatch(/was frozen by its operator at .* \(a test\): nothing new is signed/);
    expect((await currentFreeze(pool, agent))?.scope).toBe(scope);

    expect(await takeThawed(pool, { limit: 10 })).toEqual([]);
    await lift(subjectOf(agent));
    expect(await Promise.all([takeThawed(pool, { limit: 10 }), takeThawed(pool, { limit: 10 })])).toSatisfy(
      (taken: string[][]) => taken.flat().join() === id,
    );
    expect((await allot(id, prepared)).outcome).toBe('allotted');
    expect((await row(id)).notice).toBeNull();
  });

  it('keeps nothing of a payment that ended meanwhile', async () => {
    const agent = await insertTestAgent(pool);
    const id = await judged(agent);
    await put(scopes.agent(agent));
    expect(await allot(id, prepared)).toEqual({ outcome: 'frozen' });
    await inTransaction(pool, async (db) =>
      endUnsent(db, await row(id), { code: 'cancelled', message: 'It was cancelled.' }),
    );
    await lift(scopes.agent(agent));
    expect(await takeThawed(pool, { limit: 10 })).toEqual([]);
  });

  it('leaves others alone', async () => {
    const [frozen, other] = [await insertTestAgent(pool), await insertTestAgent(pool)];
    await put(scopes.account(frozen));
    await put(scopes.agent(frozen));
    expect((await allot(await judged(other), prepared)).outcome).toBe('allotted');
    expect((await allot(await judged(frozen), prepared)).outcome).toBe('frozen');
  });

  it('lets a payment keep its place, and gives it no receipt for it', async () => {
    const agent = await insertTestAgent(pool);
    const id = await judged(agent);
    const before = await allot(id, prepared);
    await put(scopes.agent(agent));
    expect((await allot(id)).outcome).toBe('frozen');
    expect(Number((await row(id)).nonce)).toBe(0);
    await lift(scopes.agent(agent));
    const after = await allot(id);
    if (before.outcome !== 'allotted' || after.outcome !== 'allotted') throw new Error('not allotted');
    expect(after.allotment.payload).toEqual(before.allotment.payload);
    expect((await row(id)).notice).toBeNull();
  });

  it.each(['cancel', 'speed_up'] as const)('allows no replacement, to %s, and keeps the wish', async (wanted) => {
    const agent = await insertTestAgent(pool);
    const id = await judged(agent);
    expect((await allot(id, prepared)).outcome).toBe('allotted');
    await storeAttempt(pool, {
      ...{ transactionId: id, hash: `0x${id}`, raw: signedBytes, purpose: 'payment', version: 1 },
    });
    const end = wanted === 'cancel' ? { end: { code: 'cancelled', message: 'no' } as const } : {};
    await wishFor(pool, { transactionId: id, wanted, ...end });
    const replace = createAllotReplacement({ pool, clock, policyKey });
    const terms = { baseFeeWei: '9000000000', tipWei: '3000000000', ceilingWei: '900000000000', atBlock: 2 };
    const anew = () => replace(id, { ...terms, nativeBalanceMinor: '1000000000000000000000' });
    await put(scopes.account(agent));
    expect(await anew()).toEqual({ outcome: 'refused' });
    expect((await row(id)).notice).toMatch(/was frozen/);
    await lift(scopes.account(agent));
    expect(await takeThawed(pool, { limit: 10 })).toEqual([id]);
    expect((await anew()).outcome).toBe('allotted');
    expect((await row(id)).notice).toBeNull();
  });

  it('stamps no authorisation, and hands none out that is signed', async () => {
    const stamp = createStampAuthorization({ pool, clock, policyKey });
    const issue = createIssueAuthorization({ pool, clock });
    const agent = await insertTestAgent(pool);
    const session = await insertTestSession(pool, agent);
    const fresh = await insertTestLedger(pool, session);
    const stamped = await insertTestLedger(pool, session);
    expect((await stamp(stamped.id)).outcome).toBe('stamped');
    await put(scopes.agent(agent));
    expect(await stamp(fresh.id)).toEqual({ outcome: 'frozen' });
    expect(await stamp(stamped.id)).toEqual({ outcome: 'frozen' });
    expect(await issue(stamped.id, `0x${'1'.repeat(130)}`)).toEqual({ outcome: 'again' });
    expect((await getX402Payment(pool, { id: fresh.id }))?.auth_nonce).toBeNull();
    await lift(scopes.agent(agent));
    expect((await stamp(fresh.id)).outcome).toBe('stamped');
    expect((await stamp(stamped.id)).outcome).toBe('stamped');
  });
});

describe('a freeze', () => {
  it('waits for whoever is allowing something, and nobody allows anything after it', async () => {
    const agent = await insertTestAgent(pool);
    const allowing = await pool.connect();
    await allowing.query('begin');
    expect(await blockingFreeze(allowing, agent)).toBeUndefined();
    let isDone = false;
    const freezing = put(scopes.account(agent)).then(() => {
      isDone = true;
    });
    // It waits in the database: whoever comes now stands behind it.
    await waiters(1);
    const late = inTransaction(pool, (db) => blockingFreeze(db, agent));
    expect(isDone).toBe(false);
    await allowing.query('commit');
    allowing.release();
    await freezing;
    expect((await late)?.scope).toBe('account');
  });

  it('waits for nobody who hangs', async () => {
    const freezing = async () => {
      const hanging = await pool.connect();
      await hanging.query('begin');
      await blockingFreeze(hanging, await insertTestAgent(pool));
      const startedAt = performance.now();
      await put({ scope: 'installation' });
      const tookMs = performance.now() - startedAt;
      await hanging.query('rollback');
      hanging.release();
      return tookMs;
    };
    expect(await bestOf(freezing, { withinMs: 1_000 })).toBeLessThan(1_000);
  });

  it('by another process: what is allotted was allotted before it, and nothing afterwards', {
    timeout: 180_000,
  }, async () => {
    const agent = await insertTestAgent(pool);
    const ids: string[] = [];
    for (let n = 0; n < 400; n += 1) ids.push(await insertTestPayment(pool, agent, { amountMinor: 1n }));
    const admin = createAdmin({ databaseUrl: () => database.url });
    let isFrozen = false;
    const freezing = admin
      .runProcess(['freeze', 'account', '--id', agent.accountId, '--wait', '0'])
      .then(({ code, stdout }) => {
        isFrozen = true;
        return { code, stdout };
      });
    const given: { startedAfter: boolean; outcome: Awaited<ReturnType<typeof allot>> }[] = [];
    for (const id of ids) {
      const startedAfter = isFrozen;
      await evaluatePolicy(id);
      given.push({ startedAfter, outcome: await allot(id, prepared) });
      if (startedAfter && given.filter((each) => each.startedAfter).length > 20) break;
    }
    expect((await freezing).code).toBe(0);
    const { version } = await readFreezes(pool);
    const allotted = given.flatMap(({ outcome }) => (outcome.outcome === 'allotted' ? [outcome.allotment] : []));
    expect(allotted.length).toBeGreaterThan(0);
    const key = publicKey as unknown as Parameters<typeof verifyReceipt>[0];
    for (const { receipt } of allotted) {
      const { iat } = await verifyReceipt(key, { receipt, now: new Date() });
      expect(iat * 1_000).toBeLessThanOrEqual(version);
    }
    const after = given.filter((each) => each.startedAfter);
    expect(after.length).toBeGreaterThan(0);
    expect(new Set(after.map(({ outcome }) => outcome.outcome))).toEqual(new Set(['frozen']));
  });

  it('property: its version grows with every change, and signers are told the state as it is', async () => {
    const agents = [await insertTestAgent(pool), await insertTestAgent(pool)];
    const subjects = [
      ...agents.flatMap((agent) => [scopes.account(agent), scopes.agent(agent)]),
      scopes.installation(agents[0]!),
    ];
    const change = fc.record({ freezes: fc.boolean(), subject: fc.constantFrom(...subjects) });
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 12 }), async (changes) => {
        for (const { freezes, subject } of changes) {
          const before = await readFreezes(pool);
          const isThere = (await listFreezes(pool, { limit: 10 })).freezes.some(
            (each) =>
              each.scope === subject.scope &&
              each.agent_id === ('agentId' in subject ? subject.agentId : null) &&
              each.account_id === ('accountId' in subject ? subject.accountId : null),
          );
          await (freezes ? put(subject) : lift(subject));
          const after = await readFreezes(pool);
          if (isThere === freezes) expect(after).toEqual(before);
          else expect(after.version).toBeGreaterThan(before.version);
        }
        const { version, told, installation, accounts, agents: frozenAgents } = await readFreezes(pool);
        const { freezes: rows, total } = await listFreezes(pool, { limit: 10 });
        expect([total, rows]).toEqual([rows.length, (await listFreezes(pool, { limit: 10 })).freezes]);
        expect([installation, accounts.length, frozenAgents.length]).toEqual([
          rows.some(({ scope }) => scope === 'installation'),
          rows.filter(({ scope }) => scope === 'account').length,
          rows.filter(({ scope }) => scope === 'agent').length,
        ]);
        expect(version).toBeGreaterThanOrEqual(told);
        await markTold(pool, version + 1);
        expect((await readFreezes(pool)).told).toBe(told);
        await markTold(pool, version);
        expect((await readFreezes(pool)).told).toBe(version);
      }),
      { numRuns: 15 },
    );
  });

  it('of the operator takes over that of somebody else', async () => {
    const agent = await insertTestAgent(pool);
    const own = await inTransaction(pool, (db) =>
      freeze(db, { ...scopes.account(agent), reason: 'mine', by: 'user_1' }),
    );
    const taken = await put(scopes.account(agent));
    expect([own.isNew, taken.isNew, taken.row.id === own.row.id, taken.row.frozen_by]).toEqual([
      true,
      true,
      true,
      'operator',
    ]);
    const again = await inTransaction(pool, (db) =>
      freeze(db, { ...scopes.account(agent), reason: 'mine', by: 'user_1' }),
    );
    expect([again.isNew, again.row.frozen_by, again.row.reason]).toEqual([false, 'operator', 'a test']);
  });
});

/** Until so many wait for the lock. */
async function waiters(count: number): Promise<void> {
  for (;;) {
    const { rows } = await pool.query(
      `select count(*)::int as count from pg_locks where locktype = 'advisory' and not granted
         and database = (select oid from pg_database where datname = current_database())`,
    );
    if (rows[0].count >= count) return;
  }
}
