import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAllot } from '../../../activities/allot.ts';
import { createAllotReplacement } from '../../../activities/allot-replacement.ts';
import { createEvaluatePolicy } from '../../../activities/evaluate-policy.ts';
import { createEndUnsigned, createFindUnsigned, createGiveBackNonce } from '../../../activities/give-back-nonce.ts';
import { createFail, createSettle } from '../../../activities/settle.ts';
import { deriveEvmAddress } from '../../../shared/chain/evm/derive-address.ts';
import { evmFamily } from '../../../shared/chain/evm/family.ts';
import { storeAttempt } from '../../../shared/db/attempts.ts';
import { databaseClock as clock } from '../../../shared/db/clock.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { getTransaction } from '../../../shared/db/transactions.ts';
import { createSignerClient, type SignerClient } from '../../../signer/client.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { evmOf } from '../../support/evm-payload.ts';
import { signRequestFor, type TestKey } from '../../support/payments.ts';
import { insertTestAgent, insertTestPayment, type TestAgent } from '../../support/rows.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

const path = 'm/44/60/0/0/0';
const prepared = {
  outcome: 'ready' as const,
  ...{ minedCount: 0, gas: '60000', maxFeePerGasWei: '3000000000', maxPriorityFeePerGasWei: '1000000000' },
  ...{ maxFeeMinor: '180000000000000', atBlock: 1, balanceMinor: '1000000000000' },
  nativeBalanceMinor: '1000000000000000000000',
};
const terms = {
  ...{ baseFeeWei: '1000000000', tipWei: '1000000000', ceilingWei: '500000000000', atBlock: 1 },
  nativeBalanceMinor: '1000000000000000000000',
};

describe('the nonce of a payment that is not to be made', () => {
  let database: TestDatabase;
  let pool: Pool;
  let signers: TestSigners;
  let signer: SignerClient;
  let agent: TestAgent;
  let key: TestKey;

  beforeAll(async () => {
    [database, signers] = await Promise.all([createTestDatabase(), startSigners()]);
    pool = createPool({ url: database.url, application: 'test' });
    signer = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity });
    agent = await insertTestAgent(pool);
    const { rows } = await pool.query<{ id: string }>('select id from account_keys where account_id = $1', [
      agent.accountId,
    ]);
    key = await signer.generateKey({ keyId: rows[0]!.id });
    const address = deriveEvmAddress({ ...key, path });
    await pool.query('update wallets set address = $2, path = $3 where id = $1', [agent.walletId, address, path]);
  });
  afterAll(async () => {
    signer?.close();
    await pool?.end();
    await Promise.all([database?.drop(), signers?.stop()]);
  });

  const row = async (id: string) => (await getTransaction(pool, { id }))!;
  async function allotted() {
    const id = await insertTestPayment(pool, agent);
    await pool.query('update transactions set from_address = $2 where id = $1', [
      id,
      deriveEvmAddress({ ...key, path }),
    ]);
    await createEvaluatePolicy({ pool, clock })(id);
    const given = await createAllot({ pool, clock, policyKey: signers.policyKey, maxInFlight: 16 })(id, prepared);
    if (given.outcome !== 'allotted') throw new Error(given.outcome);
    return { id, allotment: given.allotment, nonce: evmOf(given.allotment.payload).nonce };
  }
  /** As the activity does, but for its heartbeat. */
  const sign = async ({ payload, ...asked }: Awaited<ReturnType<typeof allotted>>['allotment']) => {
    const { signature } = await signer.sign({ ...asked, payload: evmFamily.toSign(payload)[0]! });
    return evmFamily.assemble({ payload, signatures: [signature], from: asked.address });
  };
  /** What the workflow does once the payment has failed. @returns whether its nonce is free */
  async function giveBack(id: string): Promise<boolean> {
    const request = await createFindUnsigned({ pool })(id);
    if (!request || !(await createEndUnsigned({ signer })(request))) return false;
    return (await createGiveBackNonce({ pool })(id)).isGivenBack;
  }
  const fail = (id: string) => createFail({ pool })(id, 'signing_failed', 'refused');
  const open = { state: 'open', replace: true };
  /** Uses the nonce up, with real signatures. */
  async function useUp(id: string): Promise<void> {
    const policyKey = signers.policyKey;
    const given = await createAllotReplacement({ pool, clock, policyKey })(id, terms);
    if (given.outcome !== 'allotted') throw new Error(given.outcome);
    const { hash, raw } = await sign(given.allotment);
    await storeAttempt(pool, { transactionId: id, hash, raw, purpose: 'noop', version: given.version });
    await pool.query(
      `update attempts set block_number = 7, block_hash = '0xb', succeeded = true, fee_minor = 1, final_at = now() where hash = $1`,
      [hash],
    );
    expect(await createSettle({ pool })(id)).toMatchObject({ state: 'ended', status: 'failed' });
  }

  it('goes to another one where the signers say that they signed nothing, and they sign for that one', async () => {
    const first = await allotted();
    expect(await fail(first.id)).toEqual(open);
    expect(await row(first.id)).toMatchObject({ status: 'pending' });
    expect(await giveBack(first.id)).toBe(true);
    expect(await row(first.id)).toMatchObject({ status: 'failed', failure_code: 'signing_failed' });
    expect(await giveBack(first.id)).toBe(false);
    const second = await allotted();
    expect(second.nonce).toBe(first.nonce);
    await expect(sign(second.allotment)).resolves.toHaveProperty('raw');
    // A worker that slept meanwhile gets nothing signed any more.
    await expect(sign(first.allotment)).rejects.toMatchObject({ reason: 'slot_taken' });
    await storeAttempt(pool, { transactionId: second.id, hash: '0x2', raw: '0x', purpose: 'payment', version: 1 });
  });

  it('is used up where the worker was killed between the signature and its storing; later payments go on', async () => {
    const lost = await allotted();
    await sign(lost.allotment);
    expect(await fail(lost.id)).toEqual(open);
    expect(await giveBack(lost.id)).toBe(false);
    const next = await allotted();
    expect(next.nonce).toBe(lost.nonce + 1);
    await expect(sign(next.allotment)).resolves.toHaveProperty('raw');
    await storeAttempt(pool, { transactionId: next.id, hash: '0x3', raw: '0x', purpose: 'payment', version: 1 });
    await useUp(lost.id);
    expect(await row(lost.id)).toMatchObject({ status: 'failed', failure_code: 'signing_failed' });
  });

  it('is used up where the signers know another payment at it, so that it blocks nobody', async () => {
    const { nonce } = await allotted().then(async (probe) => {
      await fail(probe.id);
      expect(await giveBack(probe.id)).toBe(true);
      return probe;
    });
    const stranger = await signRequestFor(key, {
      ...{ policyKey: signers.policyKey, path },
      transaction: {
        ...{ chainId: 31337, nonce, to: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8', valueWei: '5000000000000000000' },
        ...{ data: '0x', gas: '21000', maxFeePerGasWei: '1000000000', maxPriorityFeePerGasWei: '1' },
      },
      receipt: (valid) => ({ ...valid, transaction_id: `tx_${randomBytes(8).toString('hex')}` }),
    });
    await signer.sign(stranger);
    const refused = await allotted();
    expect(refused.nonce).toBe(nonce);
    await expect(sign(refused.allotment)).rejects.toMatchObject({ reason: 'slot_taken' });
    expect(await fail(refused.id)).toEqual(open);
    expect(await giveBack(refused.id)).toBe(false);
    await useUp(refused.id);
    const next = await allotted();
    expect(next.nonce).toBe(nonce + 1);
    await expect(sign(next.allotment)).resolves.toHaveProperty('raw');
    await storeAttempt(pool, { transactionId: next.id, hash: '0x4', raw: '0x', purpose: 'payment', version: 1 });
  });

  it('is kept while fewer than two signers can tell', async () => {
    const one = await allotted();
    await fail(one.id);
    await Promise.all([signers.kill(1), signers.kill(2)]);
    await expect(giveBack(one.id)).rejects.toThrow(/too few signers tell what was signed/);
    expect(await row(one.id)).toMatchObject({ status: 'pending' });
    await signers.restart(1);
    expect(await giveBack(one.id)).toBe(true);
    await signers.restart(2);
  });

  it('is used up where another payment has got a later one', async () => {
    const [one, two] = [await allotted(), await allotted()];
    expect(two.nonce).toBe(one.nonce + 1);
    await fail(one.id);
    expect(await giveBack(one.id)).toBe(false);
    await fail(two.id);
    expect(await giveBack(two.id)).toBe(true);
    expect(await giveBack(one.id)).toBe(true);
  });
});
