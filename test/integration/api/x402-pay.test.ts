import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createEvaluatePolicy } from '../../../activities/evaluate-policy.ts';
import { databaseClock } from '../../../shared/db/clock.ts';
import {
  completeX402Payment,
  failX402Payment,
  noteX402Ending,
  stampX402Payment,
  type X402FailureCode,
} from '../../../shared/db/x402-payments.ts';
import { insertTestPayment } from '../../support/rows.ts';
import { startTarget, type TestTarget } from '../../support/target.ts';
import { type OwnTemporal, startOwnTemporal } from '../../support/temporal.ts';
import { createAgent, recipient, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { createKeyedCalls, newKey, withKey } from './idempotency-calls.ts';
import { expectBalancedBooks, expire, offer, openSession, paymentRequired, startShop } from './x402-calls.ts';

/** No worker is there: what may be paid stays pending. */
describe('paying out of an x402 session', () => {
  let temporal: OwnTemporal;
  let api: TestApi;
  let shop: TestTarget;
  let account: TestAccount;
  let agent: { id: string; address: string };
  beforeAll(async () => {
    temporal = await startOwnTemporal();
    [api, shop] = await Promise.all([
      startTestApi({
        temporalAddress: temporal.address,
        feeTiers: [
          { fromAmount: '0', rate: '0' },
          { fromAmount: '0.1', rate: '2.5' },
        ],
      }),
      startShop(),
    ]);
    account = await api.account();
  });
  afterAll(async () => {
    await shop?.stop();
    await api?.stop();
    await temporal?.stop();
  });
  beforeEach(async () => {
    agent = await createAgent(account);
  });

  const open = (more: Partial<Parameters<typeof openSession>[1]> = {}) =>
    openSession(api, { account, agentId: agent.id, ...more });
  const pay = (sessionId: string, body: Record<string, unknown>) =>
    account.call('POST', `/api/v1/x402/sessions/${sessionId}/pay`, body);
  const policy = async (type: string, rules: Record<string, unknown>): Promise<string> =>
    (await account.call('POST', '/api/v1/policies', { agent_id: agent.id, type, rules })).body.id;
  const events = async (resourceId: string): Promise<string[]> => {
    const { rows } = await api.pool.query<{ type: string }>(
      'select type from events where resource_id = $1 order by id',
      [resourceId],
    );
    return rows.map(({ type }) => type);
  };

  /** A transfer of the agent, as the worker judges it. */
  async function transfer(amountMinor: bigint) {
    const { rows } = await api.pool.query<{ id: string }>('select id from wallets where agent_id = $1', [agent.id]);
    const payer = { accountId: account.id, agentId: agent.id, walletId: rows[0]!.id };
    const id = await insertTestPayment(api.pool, payer, { amountMinor });
    return createEvaluatePolicy({ pool: api.pool, clock: databaseClock })(id);
  }

  /** Refused, and nothing stored or taken. */
  async function expectRefused(
    sessionId: string,
    body: Record<string, unknown>,
    [code, param]: [code: string, param?: string],
  ) {
    const answer = await pay(sessionId, body);
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([400, code, param]);
    const { payments, spent } = await expectBalancedBooks(api, sessionId);
    expect([payments, spent]).toEqual([[], 0n]);
    return answer.body;
  }

  it('takes the cheapest offer with its fee out of the budget, limits and wallet, and is pending', async () => {
    const session = await open();
    const target_url = `${shop.url}/200000?city=Oslo`;
    const { status, body } = await pay(session.id, { target_url });
    expect([status, body]).toEqual([
      200,
      {
        ledger_id: expect.stringMatching(/^led_/),
        session_id: session.id,
        amount: '0.2',
        fee_amount: '0.005',
        fee_rate: '2.5',
        token: 'USDC',
        chain: 'eip155:31337',
        status: 'pending',
        status_detail: 'created',
        payment_signature: null,
        payment_header: 'PAYMENT-SIGNATURE',
        x402_version: 2,
        target_url,
        method: 'GET',
        pay_to: recipient,
        valid_before: null,
        settlement: null,
        failure_code: null,
        failure_message: null,
        approval: null,
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ]);
    const { payments, held } = await expectBalancedBooks(api, session.id);
    expect([payments.length, payments[0]!.held, held]).toEqual([1, 205_000n, 795_000n]);
    const base = `/api/v1/x402/sessions/${session.id}`;
    expect((await account.call('GET', `${base}/payments/${body.ledger_id}`)).body).toEqual(body);
    expect((await account.call('GET', `${base}/payments`)).body).toEqual({ data: [body], total: 1, has_more: false });
    expect((await account.call('GET', base)).body).toMatchObject({
      budget_limit: '1',
      budget_spent: '0.205',
      budget_remaining: '0.795',
      status: 'active',
    });
  });

  it('asks the target with the method, headers and body that it is told', async () => {
    const seen: unknown[] = [];
    const target = await startTarget((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', () => {
        const { method, url, headers } = request;
        seen.push([method, url, headers['content-type'], headers['x-city'], Buffer.concat(chunks).toString()]);
        if (method === 'POST') response.writeHead(402, paymentRequired([offer()])).end();
        else response.writeHead(405).end();
      });
    });
    const session = await open();
    const target_url = `${target.url}/weather`;
    const headers = { 'Content-Type': 'application/json', 'X-City': 'Oslo' };
    await expectRefused(session.id, { target_url }, ['payment_not_required']);
    const { status, body } = await pay(session.id, { target_url, method: 'POST', headers, body: '{"é":1}' });
    expect([status, body.method, body.amount]).toEqual([200, 'POST', '0.01']);
    expect(seen.at(-1)).toEqual(['POST', '/weather', 'application/json', 'Oslo', '{"é":1}']);
    await target.stop();
  });

  it('reads a target of version 1', async () => {
    const { amount: maxAmountRequired, ...rest } = offer();
    const target = await startTarget((_request, response) => {
      response.writeHead(402, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ x402Version: 1, accepts: [{ ...rest, maxAmountRequired }] }));
    });
    const session = await open();
    const { status, body } = await pay(session.id, { target_url: target.url });
    expect([status, body.x402_version, body.payment_header, body.amount]).toEqual([200, 1, 'X-PAYMENT', '0.01']);
    await target.stop();
  });

  it('keeps the offer as it was written, and takes the cheapest of those that fit', async () => {
    const cheapest = offer({ amount: '30', maxTimeoutSeconds: 7, unheard: { of: [1, 2] } });
    const required = { resource: { url: '/a', description: 'ü' }, extensions: { bazaar: { x: null } } };
    const others = [
      offer({ amount: '40' }),
      offer({ amount: '1', network: 'eip155:84532' }),
      offer({ amount: '2', asset: recipient }),
    ];
    const target = await startTarget((_request, response) => {
      response.writeHead(402, paymentRequired([others[0], cheapest, others[1], others[2]], required)).end();
    });
    const session = await open();
    const { body } = await pay(session.id, { target_url: target.url });
    expect(body.amount).toBe('0.00003');
    const { rows } = await api.pool.query('select offer::text, window_seconds from x402_payments where id = $1', [
      body.ledger_id,
    ]);
    const { resource, extensions } = required;
    const kept = JSON.stringify({ resource, accepted: cheapest, extensions });
    expect(rows).toEqual([{ offer: kept, window_seconds: 30 }]);
    await target.stop();
  });

  it('refuses what is beyond the session, the target or its offers, and nothing is stored', async () => {
    const session = await open({ allowedUrls: [`${shop.url}/10000`], budgetMinor: 9_999n });
    const target_url = `${shop.url}/10000`;
    await expectRefused(session.id, { target_url: `${shop.url}/100000` }, ['url_not_allowed', 'target_url']);
    await expectRefused(session.id, { target_url: `${shop.url}/10000/../x` }, ['url_not_allowed', 'target_url']);
    await expectRefused(session.id, { target_url }, ['budget_exceeded']);
    const { message, details } = await expectRefused(session.id, { target_url, max_amount: '0.005' }, [
      'no_acceptable_offer',
    ]);
    expect(message).toContain('details.offers');
    expect(details.offers).toEqual([{ index: 0, reason: expect.stringContaining('max_amount 0.005') }]);
    const any = await open();
    await expectRefused(any.id, { target_url: shop.url }, ['payment_not_required']);
    const closed = await startTarget(() => {});
    await closed.stop();
    const lost = await expectRefused(any.id, { target_url: closed.url }, ['target_unreachable']);
    expect(lost.details.reason).toBe('connection_refused');
    await expectRefused(any.id, { target_url: 'https://10.0.0.1/x' }, ['target_unreachable']);
  });

  it('says what is left where the budget is too small, fee included, and spends it to the last unit', async () => {
    const session = await open({ budgetMinor: 215_000n });
    expect((await pay(session.id, { target_url: `${shop.url}/10000` })).status).toBe(200);
    const { body } = await pay(session.id, { target_url: `${shop.url}/200001` });
    expect(body).toMatchObject({
      code: 'budget_exceeded',
      details: {
        session_id: session.id,
        attempted: '0.205001',
        fee_amount: '0.005',
        remaining: '0.205',
        token: 'USDC',
      },
    });
    expect(await events(session.id)).toEqual([]);
    expect((await pay(session.id, { target_url: `${shop.url}/200000` })).status).toBe(200);
    expect(await events(session.id)).toEqual(['x402.session.exhausted']);
    const { held, spent } = await expectBalancedBooks(api, session.id);
    expect([held, spent]).toEqual([0n, 215_000n]);
    expect((await pay(session.id, { target_url: `${shop.url}/1` })).body.code).toBe('budget_exceeded');
    const shown = await account.call('GET', `/api/v1/x402/sessions/${session.id}`);
    expect([shown.body.status, shown.body.budget_remaining]).toEqual(['active', '0']);
  });

  it('is refused once the session is deleted or expired, and for an inactive agent', async () => {
    const target_url = `${shop.url}/1`;
    const [deleted, expired, paused] = [await open(), await open(), await open()];
    await account.call('DELETE', `/api/v1/x402/sessions/${deleted.id}`);
    await expire(api, expired);
    const before = shop.connections();
    for (const { id } of [deleted, expired]) {
      const { status, body } = await pay(id, { target_url });
      expect([status, body.code, body.details.session_id]).toEqual([400, 'session_expired', id]);
    }
    await account.call('PUT', `/api/v1/agents/${agent.id}/status`, { status: 'inactive' });
    await expectRefused(paused.id, { target_url }, ['agent_inactive']);
    expect(shop.connections()).toBe(before);
    await account.call('PUT', `/api/v1/agents/${agent.id}/status`, { status: 'active' });
    expect((await pay(paused.id, { target_url })).status).toBe(200);
  });

  it('is refused where that happens while the target is asked', async () => {
    const changes: Record<string, (id: string) => Promise<unknown>> = {
      '/deleted': (id) => account.call('DELETE', `/api/v1/x402/sessions/${id}`),
      '/expired': (id) => expire(api, { id }),
      '/inactive': () => account.call('PUT', `/api/v1/agents/${agent.id}/status`, { status: 'inactive' }),
    };
    let sessionId = '';
    const target = await startTarget((request, response) => {
      void changes[request.url!]!(sessionId).then(() => response.writeHead(402, paymentRequired([offer()])).end());
    });
    for (const [path, code] of [
      ['/deleted', 'session_expired'],
      ['/expired', 'session_expired'],
      ['/inactive', 'agent_inactive'],
    ] as const) {
      sessionId = (await open()).id;
      await expectRefused(sessionId, { target_url: target.url + path }, [code]);
    }
    await target.stop();
  });

  it('is judged by the policies with what was transferred; a denial is kept and takes nothing', async () => {
    const session = await open();
    const policyId = await policy('spending_limit', { daily_limit: '0.3' });
    expect((await pay(session.id, { target_url: `${shop.url}/110000` })).status).toBe(200);
    expect(await transfer(90_000n)).toMatchObject({ outcome: 'allowed' });
    const { status, body } = await pay(session.id, { target_url: `${shop.url}/150000` });
    const { ledger_id, ...first } = body.details;
    expect([status, body.code, first]).toEqual([
      400,
      'policy_violation',
      {
        policy_id: policyId,
        policy_type: 'spending_limit',
        rule: 'daily_limit',
        limit: '0.3',
        attempted: '0.15',
        used: '0.2',
        remaining: '0.1',
        token: 'USDC',
        // What is held by a payment under way has no instant at which it is free again.
        resets_at: null,
        violations: [expect.objectContaining({ rule: 'daily_limit' })],
      },
    ]);
    const shown = await account.call('GET', `/api/v1/x402/sessions/${session.id}/payments/${ledger_id}`);
    expect(shown.body).toMatchObject({ status: 'failed', failure_code: 'policy_violation', settlement: null });
    expect(await events(ledger_id)).toEqual(['policy.violated']);
    const { spent, payments } = await expectBalancedBooks(api, session.id);
    expect([spent, payments.length]).toEqual([112_750n, 2]);
    expect((await pay(session.id, { target_url: `${shop.url}/100000` })).status).toBe(200);
    expect(await transfer(10_000n)).toEqual({ outcome: 'denied' });
    const { rows } = await api.pool.query(
      `select result, metadata ->> 'stage' as stage from audit_inbox
       where resource_id = $1 and action = 'x402_payment.evaluated'`,
      [ledger_id],
    );
    expect(rows).toEqual([{ result: 'denied', stage: 'first' }]);
  });

  it('holds the money and asks a person where a policy wants one', async () => {
    const session = await open();
    await policy('human_approval', { threshold: '0.05', approvers: ['ann@example.com'] });
    const target_url = `${shop.url}/60000`;
    const { status, body } = await pay(session.id, { target_url });
    expect([status, body.status, body.status_detail]).toEqual([200, 'pending', 'awaiting_approval']);
    const asked = await account.call('GET', `/api/v1/approvals/${body.approval.id}`);
    expect(asked.body).toMatchObject({
      ...{ ledger_id: body.ledger_id, transaction_id: null, target_url, status: 'pending', amount: '0.06' },
      expires_at: body.approval.expires_at,
    });
    expect(await events(body.approval.id)).toEqual(['approval.requested']);
    const { spent } = await expectBalancedBooks(api, session.id);
    expect(spent).toBe(60_000n);
    expect((await pay(session.id, { target_url: `${shop.url}/50000` })).body.approval).toBeNull();
  });

  it("lists a session's own payments, newest first, and shows none by another session", async () => {
    const [one, other] = [await open(), await open()];
    const made: string[] = [];
    for (const amount of [1, 2, 3])
      made.push((await pay(one.id, { target_url: `${shop.url}/${amount}` })).body.ledger_id);
    const list = await account.call('GET', `/api/v1/x402/sessions/${one.id}/payments?page_size=2`);
    expect(list.body.data.map((each: { ledger_id: string }) => each.ledger_id)).toEqual(made.toReversed().slice(0, 2));
    expect([list.body.total, list.body.has_more]).toEqual([3, true]);
    expect((await account.call('GET', `/api/v1/x402/sessions/${other.id}/payments`)).body.total).toBe(0);
    const stranger = await api.account();
    for (const path of [`${one.id}/payments/${made[0]}`, `${one.id}/payments`, one.id])
      expect((await stranger.call('GET', `/api/v1/x402/sessions/${path}`)).status).toBe(404);
    for (const path of [`${other.id}/payments/${made[0]}`, `${one.id}/payments/led_x`, `x/payments/${made[0]}`]) {
      const { status, body } = await account.call('GET', `/api/v1/x402/sessions/${path}`);
      expect([status, body.message]).toEqual([404, `There is no "${path.split('/').at(-1)}" in this account.`]);
    }
    const foreign = await stranger.call('POST', `/api/v1/x402/sessions/${one.id}/pay`, { target_url: shop.url });
    expect(foreign.status).toBe(404);
  });

  it('refuses a token that is not what it was when the session began', async () => {
    const session = await open();
    await api.pool.query('update x402_sessions set asset = $2 where id = $1', [session.id, recipient]);
    const { status, body } = await pay(session.id, { target_url: `${shop.url}/1` });
    expect([status, body.code]).toEqual([400, 'invalid_token']);
  });

  describe('repeated with its key, where the first request died before it answered', () => {
    const stamp = { nonce: `0x${'1'.repeat(64)}` as const, validAfter: 1, validBefore: 1_900_000_000 };
    const failed = (code: X402FailureCode) => (id: string) =>
      failX402Payment(api.pool, { id, code, message: `It is ${code}.` });

    it.each<[string, (id: string) => Promise<void>, number, Record<string, unknown>]>([
      ['is pending', async () => {}, 200, { status: 'pending', payment_signature: null }],
      [
        'was issued',
        async (id) => {
          await stampX402Payment(api.pool, { id, stamp });
          await completeX402Payment(api.pool, { id, paymentSignature: 'header' });
        },
        200,
        {
          status: 'completed',
          payment_signature: 'header',
          valid_before: '2030-03-17T17:46:40.000Z',
          settlement: { status: 'unsettled', tx_hash: null, settled_at: null },
        },
      ],
      [
        'fails once what may be signed is over',
        async (id) => {
          await stampX402Payment(api.pool, { id, stamp });
          await noteX402Ending(api.pool, { id, code: 'session_expired', message: 'It has ended.' });
        },
        400,
        { code: 'session_expired', message: 'It has ended.' },
      ],
      ['was rejected', failed('approval_rejected'), 200, { status: 'failed', failure_code: 'approval_rejected' }],
      ['could not be signed', failed('signing_failed'), 200, { status: 'failed', failure_code: 'signing_failed' }],
      ['was of an agent that is inactive', failed('agent_inactive'), 400, { code: 'agent_inactive' }],
    ])('is answered by how it stands: it %s', async (_what, change, status, body) => {
      const session = await open();
      const { post } = createKeyedCalls({ url: api.url, account });
      const headers = withKey(newKey());
      const repeat = () => post(`/x402/sessions/${session.id}/pay`, { target_url: `${shop.url}/1` }, headers);
      const { ledger_id: id } = (await repeat()).body;
      const forget =
        'update idempotency_keys set status = null, answer = null, lease_until = now() where resource_id = $1';
      await api.pool.query(forget, [id]);
      await change(id);
      const answer = await repeat();
      expect([answer.status, answer.replayed]).toEqual([status, 'true']);
      expect(answer.body).toMatchObject(body);
      expect(answer.body.ledger_id ?? answer.body.details.ledger_id).toBe(id);
    });
  });
});
