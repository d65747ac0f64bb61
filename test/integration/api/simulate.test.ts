import type { Address } from 'viem';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FreezeSubject, freeze, unfreeze } from '../../../shared/db/freezes.ts';
import { putHolds } from '../../../shared/db/holds.ts';
import { inTransaction } from '../../../shared/db/pool.ts';
import { newId } from '../../../shared/ids.ts';
import { createAgent, payment, type TestAccount } from './harness.ts';
import { type ApiWithChain, deadChain, startApiWithChain } from './with-chain.ts';

describe('a simulated payment', () => {
  let world: ApiWithChain;
  let account: TestAccount;
  beforeAll(async () => {
    world = await startApiWithChain();
    account = await world.api.account();
  });
  afterAll(() => world?.stop());

  const simulate = (agentId: string, more: Record<string, unknown> = {}) =>
    account.call('POST', '/api/v1/transactions/simulate', payment(agentId, more));

  async function fundedAgent(funds: { eth: string; usdc: string } = { eth: '2', usdc: '100' }) {
    const agent = await createAgent(account);
    await world.local.fund(agent.address as Address, funds);
    const { rows } = await world.api.pool.query<{ id: string }>('select id from wallets where agent_id = $1', [
      agent.id,
    ]);
    return { ...agent, walletId: rows[0]!.id };
  }
  async function limit(agentId: string, rules: Record<string, string>): Promise<string> {
    const body = { agent_id: agentId, type: 'spending_limit', rules };
    return (await account.call('POST', '/api/v1/policies', body)).body.id;
  }
  const hold = (walletId: string, asset: string, amountMinor: bigint) =>
    putHolds(world.api.pool, {
      ...{ ownerId: newId('tx'), walletId, chain: world.local.chain },
      holds: [{ asset, amountMinor }],
    });

  /** Every version of every row, with who wrote it and who locked it; but for when a key was last used. */
  async function everything(): Promise<Record<string, unknown>> {
    const { rows: tables } = await world.api.pool.query<{ name: string }>(
      `select relname::text as name from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
         and relname <> 'api_keys'`,
    );
    const found: Record<string, unknown> = {};
    for (const { name } of tables) {
      const { rows } = await world.api.pool.query(
        `select count(*)::int as count, md5(string_agg(concat_ws(' ', t.ctid, t.xmin, t.xmax, t::text), '|' order by t.ctid)) as content from ${name} t`,
      );
      found[name] = rows[0];
    }
    return found;
  }

  it('answers what would be decided, the limits and the highest fee, and neither writes nor locks a row', async () => {
    const agent = await fundedAgent();
    const policyId = await limit(agent.id, { max_transaction_amount: '20', daily_limit: '30' });
    const before = await everything();
    const { status, body } = await simulate(agent.id);
    expect([status, body]).toEqual([
      200,
      {
        allowed: true,
        decision: 'allow',
        violations: [],
        headroom: {
          [policyId]: {
            max_transaction_amount: { limit: '20', used: null, remaining: null, token: 'USDC', resets_at: null },
            daily_limit: { limit: '30', used: '0', remaining: '30', token: 'USDC', resets_at: null },
          },
        },
        estimated_fee: expect.stringMatching(/^0\.\d+$/),
        warnings: [],
      },
    ]);
    expect((await simulate(agent.id, { amount: '31' })).body.decision).toBe('deny');
    expect(await everything()).toEqual(before);
  });

  it('puts too little balance after the policies, with what others hold taken off', async () => {
    const agent = await fundedAgent();
    const policyId = await limit(agent.id, { max_transaction_amount: '50' });
    await hold(agent.walletId, world.local.usdcAddress, 45_000_000n);
    const balance = { policy_id: null, policy_type: null, rule: 'balance', token: 'USDC', resets_at: null };
    const left = { limit: '55', used: '45', remaining: '55' };
    const { body } = await simulate(agent.id, { amount: '60' });
    expect(body).toMatchObject({ allowed: false, decision: 'deny', estimated_fee: expect.any(String) });
    expect(body.violations).toEqual([
      expect.objectContaining({ policy_id: policyId, rule: 'max_transaction_amount' }),
      { ...balance, ...left, attempted: '60' },
    ]);
    // The wallet does not hold it at all: the chain cannot even say the gas.
    const tooMuch = await simulate(agent.id, { amount: '100.5' });
    expect(tooMuch.body).toMatchObject({ allowed: false, decision: 'deny', estimated_fee: null });
    expect(tooMuch.body.violations[1]).toEqual({ ...balance, ...left, attempted: '100.5' });
    expect((await simulate(agent.id, { amount: '50' })).body).toMatchObject({ allowed: true, violations: [] });
  });

  it('counts the fee in the native coin, alone or with the amount', async () => {
    const agent = await fundedAgent();
    await hold(agent.walletId, 'native', 2n * 10n ** 18n);
    const native = { rule: 'balance', limit: '0', used: '2', remaining: '0', token: 'ETH' };
    const { body } = await simulate(agent.id);
    expect(body.violations).toMatchObject([{ ...native, attempted: body.estimated_fee }]);
    const all = await fundedAgent();
    const { body: emptied } = await simulate(all.id, { amount: '2', token: 'ETH' });
    expect(emptied).toMatchObject({
      decision: 'deny',
      violations: [{ rule: 'balance', limit: '2', used: '0', attempted: expect.stringMatching(/^2\.0+\d+$/) }],
      estimated_fee: expect.stringMatching(/^0\.\d+$/),
    });
  });

  it('warns of a transfer that would fail on the chain, and does not call it allowed', async () => {
    const agent = await fundedAgent();
    // The contract of the test token takes no coins.
    const to_address = world.local.usdcAddress;
    const { body } = await simulate(agent.id, { token: 'ETH', amount: '1', to_address });
    expect(body).toMatchObject({
      allowed: false,
      estimated_fee: null,
      violations: [],
      warnings: [{ code: 'simulation_failed', policy_id: null, message: expect.stringContaining('would fail') }],
    });
  });

  it.each(['installation', 'account', 'agent'] as const)('says that it would wait: frozen %s', async (scope) => {
    const agent = await fundedAgent();
    const subject = { scope, accountId: account.id, agentId: agent.id } as FreezeSubject;
    const frozen = { ...subject, reason: 'a look first', by: 'operator' };
    await inTransaction(world.api.pool, (db) => freeze(db, frozen));
    try {
      expect((await simulate(agent.id)).body).toMatchObject({
        ...{ allowed: false, decision: 'allow', violations: [], estimated_fee: expect.any(String) },
        warnings: [
          {
            ...{ code: 'frozen', policy_id: null },
            message: expect.stringMatching(
              /was frozen by its operator .*\(a look first\).* A payment would wait for that\.$/,
            ),
          },
        ],
      });
    } finally {
      await inTransaction(world.api.pool, (db) => unfreeze(db, subject));
    }
    expect((await simulate(agent.id)).body).toMatchObject({ allowed: true, warnings: [] });
  });

  it('is refused as a payment is', async () => {
    const agent = await createAgent(account);
    for (const [more, code] of [
      [{ amount: '0' }, 'invalid_amount'],
      [{ token: 'XYZ' }, 'invalid_token'],
      [{ chain: 'eip155:5' }, 'invalid_chain'],
      [{ to_address: '0x' }, 'invalid_address'],
      [{ memos: '' }, 'invalid_request'],
    ] as const)
      expect(await simulate(agent.id, more)).toMatchObject({ status: 400, body: { code } });
    await world.api.pool.query("update agents set status = 'inactive' where id = $1", [agent.id]);
    expect(await simulate(agent.id)).toMatchObject({ status: 400, body: { code: 'agent_inactive' } });
  });

  it('answers the rest where the chain cannot be asked, whether it is dead or nobody reaches it', async () => {
    const agent = await fundedAgent();
    const policyId = await limit(agent.id, { max_transaction_amount: '5' });
    const unknown = { estimated_fee: null, warnings: [{ code: 'chain_unavailable', policy_id: null }] };
    const answer = { allowed: false, decision: 'deny', violations: [{ policy_id: policyId }], ...unknown };
    expect((await simulate(agent.id, { chain: deadChain, token: 'USDC' })).body).toMatchObject(answer);
    await world.stopChainWorker();
    const { status, body } = await simulate(agent.id);
    expect(status).toBe(200);
    expect(body).toMatchObject(answer);
  });
});
