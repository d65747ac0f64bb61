import { Client, Connection } from '@temporalio/client';
import { type Address, createPublicClient, erc20Abi, http } from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool } from '../../shared/db/pool.ts';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type CrashPoint, readPlan, writePlan } from '../support/crash-plan.ts';
import { type OwnStack, type PartName, startOwnStack } from '../support/own-stack.ts';

/** The activities of a payment, in their order. */
const steps = ['evaluatePolicy', 'prepare', 'allot', 'sign', 'broadcast', 'settle'];
const recoverWithinMs = 300_000;

let stack: OwnStack;
let client: TestClient;
let agent: { id: string; wallet: { address: Address } };
let payments = 0;

const chain = () => createPublicClient({ transport: http(stack.rpcUrl) });
const received = (owner: Address) =>
  chain().readContract({ address: stack.usdcAddress, abi: erc20Abi, functionName: 'balanceOf', args: [owner] });

beforeAll(async () => {
  stack = await startOwnStack();
  client = createTestClient(stack);
  const made = await client.post('/agents', { agent_name: 'survivor', chain: 'eip155:31337' });
  expect(made.status).toBe(200);
  agent = made.body;
});
afterAll(() => stack?.stop());

interface Sent {
  readonly id: string;
  readonly to: Address;
}

/** Sends 1 USDC to somebody new. A client whose answer got lost looks for the payment by its memo before it sends again. */
async function send(): Promise<Sent> {
  const to = privateKeyToAddress(generatePrivateKey());
  const body = {
    ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: 'eip155:31337' },
    ...{ to_address: to, amount: '1', token: 'USDC', memo: to },
  };
  const find = async () => {
    const list = await client.get(`/transactions?agent_id=${agent.id}&page_size=100`);
    if (list.status !== 200) throw new Error(`list: ${list.status}`);
    return (list.body.data as { id: string; memo: string }[]).find(({ memo }) => memo === to);
  };
  let asked = false;
  const stored = await eventually(
    async () => {
      const known = asked ? await find() : undefined;
      if (known) return known;
      asked = true;
      const answer = await client.post('/transactions', body);
      return answer.status === 200 ? (answer.body as { id: string }) : undefined;
    },
    (found) => found !== undefined,
    { timeoutMs: recoverWithinMs },
  );
  payments += 1;
  return { id: stored!.id, to };
}

async function expectPaidOnce({ id, to }: Sent): Promise<void> {
  await eventually(
    () => client.get(`/transactions/${id}`),
    ({ status, body }) => {
      if (status === 200 && body.status === 'failed') throw new Error(`failed: ${body.failure_code}`);
      return status === 200 && body.status === 'confirmed';
    },
    { timeoutMs: recoverWithinMs },
  );
  expect(await received(to)).toBe(1_000_000n);
}

/** Every nonce of the wallet was used once, by a payment of ours: nothing was sent twice, and no gap is left. */
async function expectNoGap(): Promise<void> {
  expect(await chain().getTransactionCount({ address: agent.wallet.address })).toBe(payments);
}

async function isPending({ id }: Sent): Promise<boolean> {
  const { status, body } = await client.get(`/transactions/${id}`);
  return status !== 200 || body.status === 'pending';
}

/** Sends payments until the whole plan has been carried out; each kill needs a payment that passes its step. */
async function survive(victim: PartName, left: CrashPoint[]): Promise<void> {
  const planned = left.length;
  writePlan(stack.planFile, { victim, left, pid: stack.pid(victim) });
  const before = stack.restarts(victim);
  const sent: Sent[] = [];
  const countLeft = () => readPlan(stack.planFile).left.length;
  while (countLeft() > 0) {
    expect(sent.length, 'payments needed for the plan').toBeLessThan(5 * planned);
    const leftBefore = countLeft();
    const pair = await Promise.all([send(), send()]);
    sent.push(...pair);
    // On with the next two when these have met the victim, or passed it, and when it is there to be met.
    await eventually(
      async () => countLeft() < leftBefore || (await Promise.all(pair.map(isPending))).every((pending) => !pending),
      (goOn) => goOn && readPlan(stack.planFile).pid !== undefined,
      { timeoutMs: recoverWithinMs },
    );
  }
  for (const one of sent) await expectPaidOnce(one);
  await eventually(
    async () => stack.restarts(victim) - before,
    (count) => count === planned,
    { timeoutMs: recoverWithinMs },
  );
  await expectNoGap();
}

describe('a payment survives kill -9, is confirmed, and is made once', () => {
  it('F2 F28 of the worker, before and after each step', { timeout: 900_000 }, async () => {
    await survive(
      'worker',
      steps.flatMap(
        (step) =>
          [
            { step, when: 'before' },
            { step, when: 'after' },
          ] as const,
      ),
    );
  });

  it.each<PartName>(['api', 'signer-1', 'postgres', 'temporal'])(
    'of %s at each step',
    { timeout: 900_000 },
    async (victim) => {
      await survive(
        victim,
        steps.map((step) => ({ step, when: 'before' })),
      );
    },
  );

  it('of nobody, but with Temporal away when it was asked for: it is stored, and goes on by itself', {
    timeout: 400_000,
  }, async () => {
    await stack.halt('temporal');
    const sent = await send();
    expect((await client.get(`/transactions/${sent.id}`)).body).toMatchObject({
      status: 'pending',
      status_detail: 'created',
    });
    await stack.start('temporal');
    await expectPaidOnce(sent);
    await expectNoGap();
  });

  it('with two signers away, as soon as one of them is back', { timeout: 400_000 }, async () => {
    await Promise.all([stack.halt('signer-1'), stack.halt('signer-2')]);
    const sent = await send();
    const stuck = await eventually(
      () => client.get(`/transactions/${sent.id}`),
      ({ body }) => body.status_detail === 'signing',
      { timeoutMs: recoverWithinMs },
    );
    expect(stuck.body).toMatchObject({ status: 'pending', hash: null });
    await stack.start('signer-2');
    await expectPaidOnce(sent);
    await stack.start('signer-1');
  });

  it('with its workflow terminated by hand: another one takes over where it stood', { timeout: 400_000 }, async () => {
    await Promise.all([stack.halt('signer-1'), stack.halt('signer-2')]);
    const sent = await send();
    const stuck = await eventually(
      () => client.get(`/transactions/${sent.id}`),
      ({ body }) => body.status_detail === 'signing',
      { timeoutMs: recoverWithinMs },
    );
    const connection = await Connection.connect({ address: stack.temporalAddress });
    await new Client({ connection }).workflow.getHandle(sent.id).terminate('by an operator');
    await connection.close();
    await Promise.all([stack.start('signer-1'), stack.start('signer-2')]);
    await expectPaidOnce(sent);
    expect((await client.get(`/transactions/${sent.id}`)).body.nonce).toBe(stuck.body.nonce);
    await expectNoGap();
  });

  it('of any of them, and every limit, hold and sum agrees with the payments afterwards', async () => {
    const pool = createPool({ url: stack.databaseUrl, max: 1, application: 'test' });
    try {
      expect(await findMismatches(pool)).toEqual([]);
      const { rows } = await pool.query('select state, count(*)::int as count from reservations group by state');
      expect(rows).toEqual([{ state: 'settled', count: payments }]);
    } finally {
      await pool.end();
    }
  });
});
