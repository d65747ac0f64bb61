import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createAllot } from '../../activities/allot.ts';
import { createAllotReplacement } from '../../activities/allot-replacement.ts';
import { createBroadcast } from '../../activities/broadcast.ts';
import { createCheckChain } from '../../activities/check-chain.ts';
import { createEvaluatePolicy } from '../../activities/evaluate-policy.ts';
import { createGiveBackNonce } from '../../activities/give-back-nonce.ts';
import type { Allotment } from '../../activities/issue-receipt.ts';
import { noteSignedUnfunded } from '../../activities/note-unfunded.ts';
import { createPrepare } from '../../activities/prepare.ts';
import { createQuoteReplacement } from '../../activities/quote-replacement.ts';
import { createFail, createSettle } from '../../activities/settle.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { insertPolicy } from '../../shared/db/policies.ts';
import { createPool, inTransaction, type Pool } from '../../shared/db/pool.ts';
import { findTransaction, putNotice } from '../../shared/db/transactions.ts';
import { newId } from '../../shared/ids.ts';
import { importReceiptKey } from '../../shared/receipt.ts';
import { renderTransaction } from '../../shared/render-transaction.ts';
import { cancelPayment, speedUpPayment } from '../../shared/replace-payment.ts';
import { type ChainWorld, createChainWorld, signTransaction, type TestWallet } from '../support/chain-world.ts';
import { evmOf } from '../support/evm-payload.ts';
import { patiently } from '../support/patience.ts';
import { type CommitCutter, startCommitCutter } from './api/commit-cutter.ts';

const recipient = '0x00000000000000000000000000000000000000aa';
const { privateKey } = generateKeyPairSync('ed25519');
const confirmations = 3;

describe('F39 the events of a payment', () => {
  let world: ChainWorld;
  let wallet: TestWallet;
  let policyKey: Awaited<ReturnType<typeof importReceiptKey>>;
  let cutter: CommitCutter;
  /** By a way on which commits break. */
  let fragile: Pool;
  beforeAll(async () => {
    world = await createChainWorld();
    policyKey = await importReceiptKey(JSON.stringify(privateKey.export({ format: 'jwk' })));
    cutter = await startCommitCutter({ databaseUrl: world.database.url });
    fragile = createPool({ url: cutter.url, application: 'fragile' });
  });
  afterAll(async () => {
    await fragile?.end();
    await cutter?.stop();
    await world?.close();
  });
  beforeEach(async () => {
    await world.node.setAutomine(true);
    wallet = await world.wallet();
    await world.node.setAutomine(false);
  });

  function steps({ pool = world.pool }: { pool?: Pool } = {}) {
    const chains = new Map([[world.local.chain, world.adapter({ confirmations })]]);
    const onChain = { pool, chains, ...patiently };
    const inDatabase = { pool, clock: databaseClock, policyKey };
    return {
      evaluatePolicy: createEvaluatePolicy(inDatabase),
      prepare: createPrepare(onChain),
      allot: createAllot({ ...inDatabase, maxInFlight: 16 }),
      allotReplacement: createAllotReplacement(inDatabase),
      quote: createQuoteReplacement({ pool, chains }),
      broadcast: createBroadcast(onChain),
      checkChain: createCheckChain(onChain),
      settle: createSettle({ pool }),
      fail: createFail({ pool }),
      giveBackNonce: createGiveBackNonce({ pool }),
    };
  }
  const mine = (blocks = 1) => world.node.mine({ blocks });
  const sign = ({ payload }: Allotment) => signTransaction({ wallet, transaction: evmOf(payload) });
  const twice = <T>(work: () => Promise<T>) => Promise.allSettled([work(), work()]);
  const stored = async ({ amountMinor = 7n } = {}) =>
    (await world.payment({ wallet, to: recipient, token: world.usdc, amountMinor })).id;

  async function allotted() {
    const id = await stored();
    await steps().evaluatePolicy(id);
    const ready = await steps().prepare(id);
    if (ready.outcome !== 'ready') throw new Error(JSON.stringify(ready));
    const given = await steps().allot(id, ready);
    if (given.outcome !== 'allotted') throw new Error(JSON.stringify(given));
    return { id, allotment: given.allotment };
  }
  async function sent() {
    const { id, allotment } = await allotted();
    const signed = await sign(allotment);
    await steps().broadcast({ transactionId: id, ...signed });
    return { id, ...signed };
  }
  /** Signs and sends what is wanted in place of the payment's transaction. */
  async function replace(id: string) {
    const given = await steps().allotReplacement(id, await steps().quote(id));
    if (given.outcome !== 'allotted') throw new Error(given.outcome);
    await steps().broadcast({ transactionId: id, ...(await sign(given.allotment)), version: given.version });
  }
  const ask = async (id: string, work: typeof cancelPayment | typeof speedUpPayment) => {
    const row = await world.transaction(id);
    await inTransaction(world.pool, (db) => work(db, row));
  };
  async function eventsOf(id: string) {
    const { rows } = await world.pool.query(
      'select type, data, agent_id, account_id, resource_type from events where resource_id = $1 order by created_at, id',
      [id],
    );
    return rows;
  }
  const typesOf = async (id: string) => (await eventsOf(id)).map(({ type }) => type);
  const signaturesOf = async (id: string) => {
    const { rows } = await world.pool.query(
      `select metadata from audit_inbox where resource_id = $1 and action = 'transaction.signed' order by created_at, id`,
      [id],
    );
    return rows.map(({ metadata }) => metadata);
  };
  const endsOf = async (id: string) => {
    const { rows } = await world.pool.query(
      `select action, result, metadata from audit_inbox
       where resource_id = $1 and action in ('transaction.confirmed', 'transaction.failed')`,
      [id],
    );
    return rows;
  };
  /** As the api shows it. */
  const shown = async (id: string) =>
    JSON.parse(
      JSON.stringify(renderTransaction((await findTransaction(world.pool, { id, accountId: wallet.accountId }))!)),
    );

  it('say that it is being sent once its first bytes are stored, however often those are sent', async () => {
    const { id, allotment } = await allotted();
    const signed = await sign(allotment);
    expect(await typesOf(id)).toEqual([]);
    await twice(() => steps().broadcast({ transactionId: id, ...signed }));
    await steps().broadcast({ transactionId: id, ...signed });
    expect(await eventsOf(id)).toMatchObject([
      { type: 'payment.pending', account_id: wallet.accountId, agent_id: wallet.agentId, resource_type: 'transaction' },
    ]);
    const [{ data }] = await eventsOf(id);
    expect(data).toMatchObject({ id, hash: signed.hash, status: 'pending', status_detail: 'broadcast' });
    expect(data).toEqual({ ...(await shown(id)), updated_at: data.updated_at });
    expect(await signaturesOf(id)).toEqual([{ hash: signed.hash, purpose: 'payment', version: 1 }]);
  });

  it('say it once where two workers come with different signatures of the same', async () => {
    const { id, allotment } = await allotted();
    const transaction = evmOf(allotment.payload);
    const one = await sign(allotment);
    const maxFeePerGasWei = (BigInt(transaction.maxFeePerGasWei) + 1n).toString();
    const other = await signTransaction({ wallet, transaction: { ...transaction, maxFeePerGasWei } });
    await Promise.allSettled([one, other].map((signed) => steps().broadcast({ transactionId: id, ...signed })));
    expect(await typesOf(id)).toEqual(['payment.pending']);
    expect((await signaturesOf(id)).map(({ hash }) => hash).toSorted()).toEqual([one.hash, other.hash].toSorted());
  });

  it('say it once for all replacements, and that it is paid once the last block is deep enough', async () => {
    const payment = await sent();
    await ask(payment.id, speedUpPayment);
    await replace(payment.id);
    await mine(1);
    expect(await steps().checkChain(payment.id)).toEqual({ state: 'included' });
    await steps().settle(payment.id);
    expect(await typesOf(payment.id)).toEqual(['payment.pending']);
    await mine(confirmations - 1);
    expect(await steps().checkChain(payment.id)).toEqual({ state: 'final' });
    expect(await typesOf(payment.id)).toEqual(['payment.pending']);
    await twice(() => steps().settle(payment.id));
    await steps().settle(payment.id);
    const [, { type, data }, ...more] = await eventsOf(payment.id);
    expect([type, more]).toEqual(['payment.completed', []]);
    expect(data).toMatchObject({ status: 'confirmed', status_detail: 'confirmed', fee: expect.stringMatching(/^0\./) });
    expect(data).toEqual(await shown(payment.id));
    expect((await signaturesOf(payment.id)).map(({ version }) => version)).toEqual([1, 2]);
    expect(await endsOf(payment.id)).toEqual([
      {
        action: 'transaction.confirmed',
        result: 'success',
        metadata: { hash: data.hash, block_number: data.block_number, fee: data.fee, failure_code: null },
      },
    ]);
  });

  it('say nothing again when a reorganisation has taken its block back', async () => {
    const { id } = await sent();
    await mine(1);
    expect(await steps().checkChain(id)).toEqual({ state: 'included' });
    await world.node.request({ method: 'anvil_reorg' as never, params: [1, []] as never });
    expect(await steps().checkChain(id)).toEqual({ state: 'waiting' });
    expect(await typesOf(id)).toEqual(['payment.pending']);
    await mine(confirmations);
    await steps().checkChain(id);
    await steps().settle(id);
    expect(await typesOf(id)).toEqual(['payment.pending', 'payment.completed']);
  });

  it('say that it has failed once, with its fee where the chain took one: cancelled after it was sent', async () => {
    const { id } = await sent();
    await ask(id, cancelPayment);
    await ask(id, cancelPayment);
    await replace(id);
    await mine(confirmations);
    await steps().checkChain(id);
    await twice(() => steps().settle(id));
    await steps().settle(id);
    expect(await typesOf(id)).toEqual(['payment.pending', 'payment.failed']);
    const [, { data }] = await eventsOf(id);
    expect(data).toMatchObject({ failure_code: 'cancelled', fee: expect.stringMatching(/^0\./) });
    expect(data).toEqual(await shown(id));
    expect((await signaturesOf(id)).map(({ purpose }) => purpose)).toEqual(['payment', 'cancel']);
  });

  it('say that it has failed once, without having been sent: cancelled, or impossible, whoever comes first', async () => {
    const [cancelled, impossible] = [await stored(), await stored()];
    await Promise.allSettled([
      ask(cancelled, cancelPayment),
      ask(cancelled, cancelPayment),
      steps().fail(cancelled, 'simulation_failed', 'It would revert.'),
    ]);
    await twice(() => steps().fail(impossible, 'simulation_failed', 'It would revert.'));
    for (const id of [cancelled, impossible]) {
      const [{ type, data }, ...more] = await eventsOf(id);
      expect([type, more]).toEqual(['payment.failed', []]);
      expect(data).toEqual(await shown(id));
    }
  });

  it('say of a nonce that is used up for a payment that was never sent only that it has failed', async () => {
    const [first, second] = [await allotted(), await allotted()];
    await steps().fail(first.id, 'signing_failed', 'The signers refused.');
    expect(await typesOf(first.id)).toEqual([]);
    await replace(first.id);
    await steps().broadcast({ transactionId: second.id, ...(await sign(second.allotment)) });
    await mine(confirmations);
    await steps().checkChain(first.id);
    await steps().settle(first.id);
    expect(await typesOf(first.id)).toEqual(['payment.failed']);
    expect(await typesOf(second.id)).toEqual(['payment.pending']);
  });

  it('say of a wallet that cannot pay what it has signed that it needs money, once each time that begins', async () => {
    const { id, allotment } = await allotted();
    const signed = await sign(allotment);
    await world.node.setBalance({ address: wallet.account.address, value: 0n });
    const send = () => steps().broadcast({ transactionId: id, ...signed });
    expect(await twice(send)).toMatchObject([{ value: { outcome: 'unfunded' } }, { value: { outcome: 'unfunded' } }]);
    await steps().checkChain(id);
    const lowGas = async () => {
      const { rows } = await world.pool.query(
        `select data from events where type = 'agent.low_gas' and agent_id = $1`,
        [wallet.agentId],
      );
      return rows.map(({ data }) => data);
    };
    const told = { agent_id: wallet.agentId, transaction_id: id, address: wallet.account.address };
    expect(await lowGas()).toMatchObject([told]);
    await putNotice(world.pool, { id, notice: null });
    const row = await world.transaction(id);
    const note = () => noteSignedUnfunded(world.pool, { row, reason: 'it has nothing', now: new Date() });
    await Promise.all(Array.from({ length: 8 }, note));
    expect(await lowGas()).toMatchObject([told, told]);
    await world.node.setBalance({ address: wallet.account.address, value: 10n ** 18n });
    await steps().checkChain(id);
    expect(await world.transaction(id)).toMatchObject({ notice: null });
    expect(await lowGas()).toHaveLength(2);
  });

  it('say of a denial that a policy was violated, and nothing else, at either evaluation', async () => {
    const agent = { accountId: wallet.accountId, agentId: wallet.agentId };
    const { id } = await allotted();
    const rules = { max_transaction_amount: '0.000001' };
    await insertPolicy(world.pool, { id: newId('pol'), ...agent, type: 'spending_limit', rules });
    // The signers may have signed for its nonce: it ends once they say that they did not.
    expect(await steps().allot(id)).toEqual({ outcome: 'signed' });
    await twice(() => steps().giveBackNonce(id));
    const denied = await stored();
    await twice(() => steps().evaluatePolicy(denied));
    for (const each of [id, denied]) expect(await typesOf(each)).toEqual(['policy.violated']);
  });

  it.each(['before', 'after'] as const)('are as many when a commit breaks off (%s it is kept)', async (when) => {
    const { id, allotment } = await allotted();
    const signed = await sign(allotment);
    cutter.cutNextCommit(when);
    await expect(steps({ pool: fragile }).broadcast({ transactionId: id, ...signed })).rejects.toThrow();
    expect(await typesOf(id)).toEqual(when === 'before' ? [] : ['payment.pending']);
    expect(await world.attempts(id)).toHaveLength(when === 'before' ? 0 : 1);
    await steps().broadcast({ transactionId: id, ...signed });
    expect(await typesOf(id)).toEqual(['payment.pending']);
    expect(await signaturesOf(id)).toHaveLength(1);
    await mine(confirmations);
    await steps().checkChain(id);
    cutter.cutNextCommit(when);
    await expect(steps({ pool: fragile }).settle(id)).rejects.toThrow();
    expect(await typesOf(id)).toHaveLength(when === 'before' ? 1 : 2);
    expect((await steps().settle(id)).state).toBe('ended');
    expect(await typesOf(id)).toEqual(['payment.pending', 'payment.completed']);
  });

  it('are written in the database transaction of what they report', async () => {
    const { id } = await sent();
    const { rows } = await world.pool.query(
      `select t.xmin = e.xmin and u.xmin = e.xmin as together from transactions t join events e on e.resource_id = t.id
       join audit_inbox u on u.resource_id = t.id and u.action = 'transaction.signed' where t.id = $1`,
      [id],
    );
    expect(rows).toEqual([{ together: true }]);
  });
});
