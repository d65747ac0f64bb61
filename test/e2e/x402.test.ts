import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { x402Client } from '@x402/core/client';
import { decodePaymentResponseHeader, decodePaymentSignatureHeader } from '@x402/core/http';
import type { SchemeNetworkClient } from '@x402/core/types';
import { wrapFetchWithPayment } from '@x402/fetch';
import { type Address, createTestClient as createNodeClient, erc20Abi, http, publicActions } from 'viem';
import { anvil } from 'viem/chains';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { findMismatches } from '../../shared/db/mismatches.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { messageNames } from '../../shared/temporal.ts';
import { type Answer, createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type Merchant, startMerchant } from '../support/merchant.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';

const chain = 'eip155:31337';
const soonMs = 180_000;
/** Half of the order of the curve: a signature with a larger s is one that contracts refuse. */
const halfOrder = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

let stack: OwnStack;
let client: TestClient;
let merchant: Merchant;
let pool: Pool;
let temporal: Connection;
let payer: Address;
let agentId: string;
let sessionId: string;

beforeAll(async () => {
  stack = await startOwnStack({ decides: true });
  client = createTestClient(stack);
  merchant = await startMerchant({ rpcUrl: stack.rpcUrl, token: stack.usdcAddress });
  pool = createPool({ url: stack.databaseUrl, max: 2, application: 'test' });
  temporal = await Connection.connect({ address: stack.temporalAddress });
  const agent = await client.post('/agents', { agent_name: 'buyer', chain });
  [agentId, payer] = [agent.body.id, agent.body.wallet.address];
});
afterAll(async () => {
  await temporal?.close();
  await pool?.end();
  await merchant?.stop();
  await stack?.stop();
});
beforeEach(async () => {
  const opened = await client.post('/x402/sessions', {
    ...{ agent_id: agentId, chain, budget_limit: '1', ttl_seconds: 3_600, allowed_urls: [merchant.url] },
  });
  expect(opened.status).toBe(200);
  sessionId = opened.body.id;
});
/** Whatever has happened, everybody's books agree. */
afterEach(async () => {
  expect(await findMismatches(pool)).toEqual([]);
});

const node = () =>
  createNodeClient({ mode: 'anvil', chain: anvil, transport: http(stack.rpcUrl) }).extend(publicActions);
const usdcOf = (owner: Address) =>
  node().readContract({ address: stack.usdcAddress, abi: erc20Abi, functionName: 'balanceOf', args: [owner] });
/** What payer and merchant have lost and got meanwhile, in minor units. */
async function moved<T>(work: () => Promise<T>): Promise<{ result: T; paid: bigint; received: bigint }> {
  const before = await Promise.all([usdcOf(payer), usdcOf(merchant.payTo)]);
  const result = await work();
  const after = await Promise.all([usdcOf(payer), usdcOf(merchant.payTo)]);
  return { result, paid: before[0] - after[0], received: after[1] - before[1] };
}

const url = (path: string) => `${merchant.url}${path}`;
const pay = (path: string, more: Record<string, unknown> = {}) =>
  client.post(`/x402/sessions/${sessionId}/pay`, { target_url: url(path), ...more });
async function paid(path: string, more: Record<string, unknown> = {}): Promise<Answer['body']> {
  const { status, body: first } = await pay(path, more);
  expect([status, first.failure_code]).toEqual([200, null]);
  const body = await signed(first);
  expect(body).toMatchObject({ status: 'completed', settlement: { status: 'unsettled' } });
  return body;
}
/** On a busy machine the signers may take longer than the answer waits. */
async function signed(answered: Answer['body']): Promise<Answer['body']> {
  if (answered.status !== 'pending') return answered;
  return eventually(
    () => read(answered.ledger_id),
    (seen) => seen.status !== 'pending',
    { timeoutMs: soonMs },
  );
}
/** Asks the target again, with what our service answered and nothing else. */
const retry = (path: string, { payment_header, payment_signature }: Answer['body'], init: RequestInit = {}) =>
  fetch(url(path), { ...init, headers: { ...init.headers, [payment_header]: payment_signature }, redirect: 'manual' });
const read = async (ledgerId: string) => (await client.get(`/x402/sessions/${sessionId}/payments/${ledgerId}`)).body;
const reach = (ledgerId: string, settlement: string) =>
  eventually(
    () => read(ledgerId),
    (body) => body.settlement.status === settlement,
    { timeoutMs: soonMs },
  );
const budget = async () => {
  const { body } = await client.get(`/x402/sessions/${sessionId}`);
  return [body.budget_spent, body.budget_remaining];
};
const authorizationOf = ({ payment_signature }: Answer['body']) =>
  decodePaymentSignatureHeader(payment_signature).payload as {
    signature: `0x${string}`;
    authorization: { from: string; to: string; value: string; validAfter: string; validBefore: string; nonce: string };
  };
/** Lets the chain go past the last second of authorisations, and the payments look. */
async function expire(...payments: Answer['body'][]): Promise<void> {
  const last = Math.max(...payments.map((each) => Number(authorizationOf(each).authorization.validBefore)));
  const now = Number((await node().getBlock()).timestamp);
  if (last >= now) await node().increaseTime({ seconds: last - now + 1 });
  await node().mine({ blocks: 2 });
  const { workflow } = new Client({ connection: temporal });
  for (const { ledger_id } of payments) await workflow.getHandle(ledger_id).signal(messageNames.replace);
  for (const { ledger_id } of payments) await reach(ledger_id, 'expired');
}

describe('a plain client that only asks to pay and repeats its request with the header', () => {
  it('gets the content, and the money moves once', async () => {
    const {
      result,
      paid: spent,
      received,
    } = await moved(async () => {
      const payment = await paid('/data');
      const response = await retry('/data', payment);
      expect([response.status, await response.json()]).toEqual([200, { content: '/data', echo: null }]);
      const settled = await reach(payment.ledger_id, 'settled');
      expect(decodePaymentResponseHeader(response.headers.get('PAYMENT-RESPONSE')!)).toMatchObject({
        ...{ success: true, payer, transaction: settled.settlement.tx_hash, network: chain },
      });
      return settled;
    });
    expect([spent, received]).toEqual([10_000n, 10_000n]);
    expect(result).toMatchObject({ status: 'completed', settlement: { settled_at: expect.any(String) } });
    expect(await budget()).toEqual(['0.01', '0.99']);
  });

  it('gets it by POST with a body, which the target was probed with as well', async () => {
    const body = JSON.stringify({ city: 'Bern' });
    const headers = { 'Content-Type': 'application/json' };
    const payment = await paid('/data', { method: 'POST', headers, body });
    const response = await retry('/data', payment, { method: 'POST', headers, body });
    expect([response.status, await response.json()]).toEqual([200, { content: '/data', echo: { city: 'Bern' } }]);
    await reach(payment.ledger_id, 'settled');
  });

  it('gets it from a target of version 1', async () => {
    const { paid: spent } = await moved(async () => {
      const payment = await paid('/v1');
      expect(payment).toMatchObject({ x402_version: 1, payment_header: 'X-PAYMENT' });
      const response = await retry('/v1', payment);
      expect([response.status, await response.json()]).toMatchObject([200, { content: '/v1' }]);
      await reach(payment.ledger_id, 'settled');
    });
    expect(spent).toBe(10_000n);
  });

  it('is told that what costs nothing needs no payment', async () => {
    expect(await pay('/free')).toMatchObject({ status: 400, body: { code: 'payment_not_required' } });
    expect(await budget()).toEqual(['0', '1']);
  });
});

describe('the official client, with our service in place of its key', () => {
  /** Asks our service to pay what the client has chosen. */
  function scheme(target: string): SchemeNetworkClient {
    return {
      scheme: 'exact',
      async createPaymentPayload(x402Version) {
        const { payload } = decodePaymentSignatureHeader((await paid(target)).payment_signature);
        return { x402Version, payload };
      },
    };
  }
  const fetchPaid = (path: string) => {
    const payments = new x402Client().register(chain, scheme(path)).setSpendControls({
      allowedAssets: [{ network: chain, asset: stack.usdcAddress, maxAmountPerPayment: '50000' }],
    });
    return wrapFetchWithPayment(fetch, payments)(url(path));
  };

  it('gets the content, and the money moves once', async () => {
    const { result, paid: spent, received } = await moved(() => fetchPaid('/data'));
    expect([result.status, await result.json()]).toEqual([200, { content: '/data', echo: null }]);
    expect([spent, received]).toEqual([10_000n, 10_000n]);
    expect(await budget()).toEqual(['0.01', '0.99']);
  });
});

describe('what x402 is like', () => {
  it('(1) a 402 after the header was sent does not mean unpaid: the chain says that it was', async () => {
    const { paid: spent } = await moved(async () => {
      const payment = await paid('/deaf');
      expect((await retry('/deaf', payment)).status).toBe(402);
      await reach(payment.ledger_id, 'settled');
    });
    expect(spent).toBe(10_000n);
    expect(await budget()).toEqual(['0.01', '0.99']);
  });

  it('(2) the same header twice, after and beside each other, pays once; the same key gives the same header', async () => {
    const { paid: spent } = await moved(async () => {
      const key = { 'Idempotency-Key': randomUUID() };
      const ask = async () => {
        const response = await fetch(`${stack.baseUrl}/api/v1/x402/sessions/${sessionId}/pay`, {
          method: 'POST',
          headers: { 'X-API-Key': stack.apiKey, 'Content-Type': 'application/json', ...key },
          body: JSON.stringify({ target_url: url('/data') }),
        });
        return response.json() as Promise<Answer['body']>;
      };
      const answers = [await ask(), await ask()];
      expect(answers[1]).toEqual(answers[0]);
      const payment = await signed(answers[0]);
      const responses = await Promise.all([retry('/data', payment), retry('/data', payment)]);
      expect(responses.filter(({ ok }) => ok).length).toBeGreaterThanOrEqual(1);
      expect((await retry('/data', payment)).status).toBe(402);
      await reach(payment.ledger_id, 'settled');
      const again = await signed(await ask());
      expect([again.ledger_id, again.payment_signature]).toEqual([payment.ledger_id, payment.payment_signature]);
    });
    expect(spent).toBe(10_000n);
    expect(await budget()).toEqual(['0.01', '0.99']);
  });

  it('(3) a header is good for another resource with the same terms: one payment all the same', async () => {
    const { paid: spent } = await moved(async () => {
      const payment = await paid('/data');
      expect((await retry('/other', payment)).status).toBe(200);
      expect((await retry('/data', payment)).status).toBe(402);
      await reach(payment.ledger_id, 'settled');
    });
    expect(spent).toBe(10_000n);
    expect(await budget()).toEqual(['0.01', '0.99']);
  });

  it('(6) however long a target wants an authorisation to be good, it is five minutes at most', async () => {
    const before = Math.floor(Date.now() / 1000);
    const { authorization } = authorizationOf(await paid('/long'));
    const after = Math.ceil(Date.now() / 1000);
    expect(Number(authorization.validBefore) - before).toBeGreaterThanOrEqual(299);
    expect(Number(authorization.validBefore) - after).toBeLessThanOrEqual(301);
    expect(Number(authorization.validBefore) - Number(authorization.validAfter)).toBe(900);
  });

  it('(8, 11) 20 at once: 20 nonces, 20 signatures as contracts want them, 20 settled', {
    timeout: 400_000,
  }, async () => {
    const count = 20;
    const { paid: spent } = await moved(async () => {
      const payments = await Promise.all(Array.from({ length: count }, () => paid('/data')));
      for (const payment of payments) {
        const { signature } = authorizationOf(payment);
        expect(signature).toMatch(/^0x[0-9a-f]{128}(1b|1c)$/);
        expect(BigInt(`0x${signature.slice(66, 130)}`)).toBeLessThanOrEqual(halfOrder);
      }
      expect(new Set(payments.map((each) => authorizationOf(each).authorization.nonce)).size).toBe(count);
      const responses = await Promise.all(payments.map((payment) => retry('/data', payment)));
      expect(responses.map(({ status }) => status)).toEqual(payments.map(() => 200));
      for (const { ledger_id } of payments) await reach(ledger_id, 'settled');
    });
    expect(spent).toBe(10_000n * BigInt(count));
    expect(await budget()).toEqual(['0.2', '0.8']);
  });

  it('(9) a redirect is not followed, with or without a payment', async () => {
    const before = merchant.served();
    const answer = await pay('/moved');
    expect(answer.status).toBe(400);
    expect(merchant.served()).toBe(before);
    expect(await budget()).toEqual(['0', '1']);
  });

  it('(10) what is echoed fits into a header that servers take, or is not paid', async () => {
    const payment = await paid('/wordy');
    expect(payment.payment_signature.length).toBeGreaterThan(10_000);
    expect((await retry('/wordy', payment)).status).toBe(200);
    await reach(payment.ledger_id, 'settled');
    expect(await pay('/wordier')).toMatchObject({ status: 400, body: { code: 'no_acceptable_offer' } });
    expect(await budget()).toEqual(['0.01', '0.99']);
  });

  it('(12) the cheapest offer is taken, not the first; max_amount is a limit', async () => {
    const payment = await paid('/choice');
    expect(payment.amount).toBe('0.01');
    expect((await retry('/choice', payment)).status).toBe(200);
    await reach(payment.ledger_id, 'settled');
    expect(await pay('/choice', { max_amount: '0.009' })).toMatchObject({
      ...{ status: 400, body: { code: 'no_acceptable_offer' } },
    });
    expect(await budget()).toEqual(['0.01', '0.99']);
  });

  // Last, each with a longer time than the one before: they let the chain's clock run ahead.
  it('(4) a handler that fails leaves the header good until it is over; then the budget comes back', async () => {
    const { paid: spent } = await moved(async () => {
      const payment = await paid('/fails');
      expect((await retry('/fails', payment)).status).toBe(500);
      expect(await read(payment.ledger_id)).toMatchObject({ settlement: { status: 'unsettled' } });
      expect(await budget()).toEqual(['0.01', '0.99']);
      await expire(payment);
      expect(await read(payment.ledger_id)).toMatchObject({ status: 'completed', settlement: { tx_hash: null } });
    });
    expect(spent).toBe(0n);
    expect(await budget()).toEqual(['0', '1']);
  });

  it('(5) a price that has changed since the probe is not paid, and the next one is', async () => {
    const { paid: spent } = await moved(async () => {
      const old = await paid('/moody');
      merchant.setPrice('15000');
      expect((await retry('/moody', old)).status).toBe(402);
      const payment = await paid('/moody');
      expect(payment.amount).toBe('0.015');
      expect((await retry('/moody', payment)).status).toBe(200);
      await reach(payment.ledger_id, 'settled');
      await expire(old);
    });
    expect(spent).toBe(15_000n);
    expect(await budget()).toEqual(['0.015', '0.985']);
  });

  it('(4) a header that was used in time stays paid, whenever somebody looks', async () => {
    const [used, unused] = [await paid('/long'), await paid('/long')];
    expect((await retry('/long', used)).status).toBe(200);
    await expire(unused);
    await reach(used.ledger_id, 'settled');
    expect(await budget()).toEqual(['0.01', '0.99']);
  });
});
