import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { cancelApprovals } from '../../../shared/db/approvals.ts';
import { createAgent, startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';
import { askPeople, expireIn, tracesOf } from './questions.ts';

const ann = 'ann@example.com';
const bob = 'bob@example.com';
const eve = 'eve@example.com';

let api: TestApi;
let account: TestAccount;
let signedIn: Record<string, TestPerson>;

beforeAll(async () => {
  api = await startTestApi({ temporalAddress: inject('stack').temporalAddress });
  account = await api.account();
  signedIn = Object.fromEntries(
    await Promise.all([ann, bob, eve].map(async (email) => [email, await account.person(email)] as const)),
  );
});
afterAll(() => api?.stop());

const as = (email: string) => signedIn[email]!.call;
const list = (query: string) => account.call('GET', `/api/v1/approvals?${query}`);

describe('an approval', () => {
  it('is shown whole', async () => {
    const { agent, transactionId, approvalId } = await askPeople(api, account, [{ approvers: [ann, bob] }]);
    const { status, body } = await account.call('GET', `/api/v1/approvals/${approvalId}`);
    expect(status).toBe(200);
    expect(body).toEqual({
      id: approvalId,
      transaction_id: transactionId,
      ledger_id: null,
      target_url: null,
      agent_id: agent.agentId,
      policy_id: expect.stringMatching(/^pol_/),
      status: 'pending',
      amount: '1',
      token: 'USDC',
      chain: 'eip155:31337',
      to_address: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
      threshold: '0.5',
      required_approvals: 1,
      approvers: [ann, bob],
      decisions: [],
      notices: [ann, bob].map((approver) => ({ approver, status: 'waiting', error: null, sent_at: null })),
      expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      created_at: expect.stringMatching(/Z$/),
      decided_at: null,
    });
    expect((await as(eve)('GET', `/api/v1/approvals/${approvalId}`)).body).toEqual(body);
  });

  it('is the same 404 for one of another account, one that is none, and one that cannot be', async () => {
    const other = await api.account();
    const { approvalId } = await askPeople(api, other, [{ approvers: [ann] }]);
    for (const id of [approvalId, 'apr_00000000000000000000000000', 'x', 'tx_1'])
      for (const path of [`approvals/${id}`, `approvals/${id}/approve`]) {
        const method = path.endsWith('approve') ? 'POST' : 'GET';
        const { status, body } = await as(ann)(method, `/api/v1/${path}`);
        expect([status, body.code, body.message]).toEqual([
          404,
          'resource_not_found',
          `There is no ${JSON.stringify(id)} in this account.`,
        ]);
      }
    expect(
      (await tracesOf(api, { agent: {} as never, transactionId: '', approvalId, approvalIds: [] })).audits,
    ).toEqual([]);
  });
});

describe('the list of approvals', () => {
  it('tells them apart by status and agent, also what only the clock has ended', async () => {
    const other = await api.account();
    const person = await other.person(ann);
    const wanted = {
      pending: await askPeople(api, other, [{ approvers: [ann] }]),
      approved: await askPeople(api, other, [{ approvers: [ann] }]),
      rejected: await askPeople(api, other, [{ approvers: [ann] }]),
      expired: await askPeople(api, other, [{ approvers: [ann] }]),
      cancelled: await askPeople(api, other, [{ approvers: [ann] }]),
    };
    await person.call('POST', `/api/v1/approvals/${wanted.approved.approvalId}/approve`);
    await person.call('POST', `/api/v1/approvals/${wanted.rejected.approvalId}/reject`);
    await expireIn(api, { approvalId: wanted.expired.approvalId, ms: -1 });
    await cancelApprovals(api.pool, { paymentId: wanted.cancelled.transactionId });
    for (const [status, { approvalId, agent }] of Object.entries(wanted)) {
      for (const query of [`status=${status}`, `agent_id=${agent.agentId}`]) {
        const { body } = await other.call('GET', `/api/v1/approvals?${query}`);
        expect(body).toMatchObject({ data: [{ id: approvalId, status }], total: 1, has_more: false });
      }
    }
    const { body } = await other.call('GET', '/api/v1/approvals?page_size=2&page_num=2');
    expect(body).toMatchObject({ total: 5, has_more: true });
    expect(body.data).toHaveLength(2);
  });

  it('refuses what it cannot filter by', async () => {
    const other = await api.account();
    const { id: foreign } = await createAgent(other);
    for (const [query, param] of [
      [`agent_id=${foreign}`, 'agent_id'],
      ['agent_id=x', 'agent_id'],
      ['status=open', 'status'],
      ['page_size=101', 'page_size'],
      ['approver=x', 'approver'],
    ]) {
      const { status, body } = await list(query!);
      expect([status, body.code, body.param]).toEqual([400, 'invalid_request', param]);
    }
  });
});

describe('deciding', () => {
  it.each([
    ['approve', 'approved'],
    ['reject', 'rejected'],
  ] as const)(
    '%s is kept with its note, its event and its audit entry, in one database transaction',
    async (verb, status) => {
      const asked = await askPeople(api, account, [{ approvers: [ann, bob] }]);
      const note = 'Asked by telephone.\nSays yes\u00e9';
      const answer = await as(ann)('POST', `/api/v1/approvals/${asked.approvalId}/${verb}`, { note });
      expect(answer.status).toBe(200);
      const decision = { approver: ann, decision: status, note, decided_at: answer.body.decided_at };
      expect(answer.body).toMatchObject({ id: asked.approvalId, status, decisions: [decision] });
      expect((await account.call('GET', `/api/v1/approvals/${asked.approvalId}`)).body).toEqual(answer.body);
      const { approval, events, audits } = await tracesOf(api, asked);
      expect(events).toEqual([{ type: `approval.${status}`, data: answer.body, xid: approval.xid }]);
      expect(audits).toEqual([
        {
          action: `approval.${status}`,
          actor_type: 'approver',
          actor_id: ann,
          metadata: {
            ...{ transaction_id: asked.transactionId, ledger_id: null },
            ...{ status, approver: ann, note, via: 'bearer', user_id: expect.stringMatching(/^user_/) },
          },
          xid: approval.xid,
        },
      ]);
    },
  );

  it.each<[string, unknown, string | null]>([
    ['no body', undefined, null],
    ['an empty body', '', null],
    ['an empty object', {}, null],
    ['a note that is null', { note: null }, null],
    ['an empty note', { note: '' }, null],
    ['a note of 1024 characters', { note: '\u{1F600}'.repeat(1024) }, '\u{1F600}'.repeat(1024)],
  ])('takes %s', async (_what, body, note) => {
    const { approvalId } = await askPeople(api, account, [{ approvers: [ann] }]);
    const answer = await as(ann)('POST', `/api/v1/approvals/${approvalId}/approve`, body);
    expect([answer.status, answer.body.decisions?.[0].note]).toEqual([200, note]);
  });

  it('with an API key beside the token is deciding by a person', async () => {
    const { approvalId } = await askPeople(api, account, [{ approvers: [ann] }]);
    const answer = await as(ann)('POST', `/api/v1/approvals/${approvalId}/approve`, undefined, {
      'x-api-key': account.key,
    });
    expect(answer.status).toBe(200);
  });

  it('finds an approver whatever the case of the address', async () => {
    const { approvalId } = await askPeople(api, account, [{ approvers: [ann] }]);
    const { call } = await account.person('Ann@Example.COM');
    expect((await call('POST', `/api/v1/approvals/${approvalId}/approve`)).body.decisions[0].approver).toBe(ann);
  });

  it('of several waits for the last that is required', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann, bob, eve], required: 2 }]);
    const path = `/api/v1/approvals/${asked.approvalId}/approve`;
    expect((await as(bob)('POST', path)).body).toMatchObject({ status: 'pending', decided_at: null });
    expect((await tracesOf(api, asked)).events).toEqual([]);
    const again = await as(bob)('POST', path);
    expect([again.status, again.body.code]).toEqual([409, 'approval_already_decided']);
    expect(again.body.message).toMatch(/^bob@example\.com has approved apr_.* others have yet to decide\.$/);
    expect((await as(eve)('POST', path)).body.status).toBe('approved');
    const { events, audits } = await tracesOf(api, asked);
    expect(events.map(({ type }) => type)).toEqual(['approval.approved']);
    expect(audits.map(({ actor_id, metadata }) => [actor_id, metadata.status])).toEqual([
      [bob, 'pending'],
      [eve, 'approved'],
    ]);
  });
});

describe('a decision is refused', () => {
  const noBody = undefined;
  const verbs = ['approve', 'reject'];

  it('to an API key, before anything else, and changes nothing', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    const before = await tracesOf(api, asked);
    const paths = verbs.flatMap((verb) => [
      `/api/v1/approvals/${asked.approvalId}/${verb}`,
      `/api/v1/transactions/${asked.transactionId}/${verb}`,
      `/api/v1/approvals/x/${verb}`,
      `/api/v1/transactions/x/${verb}?x=1`,
    ]);
    for (const path of paths) {
      const { status, body } = await account.call('POST', path, { no: 'such' });
      expect([status, body.code, body.type]).toEqual([403, 'insufficient_permissions', 'authorization_error']);
      expect(body.message).toMatch(/^An API key never approves or rejects a payment: sign in, or use the link/);
    }
    expect(await tracesOf(api, asked)).toEqual(before);
  });

  it('to whoever is not asked, and to one whose address is not verified, before the input is looked at', async () => {
    const carl = 'carl@example.com';
    const asked = await askPeople(api, account, [{ approvers: [ann, carl] }]);
    const before = await tracesOf(api, asked);
    const unverified = await account.person(carl, { emailVerified: false });
    for (const path of [`approvals/${asked.approvalId}`, `transactions/${asked.transactionId}`])
      for (const [{ call }, words] of [
        [signedIn[eve]!, /^eve@example\.com is not asked to approve/],
        [unverified, /is not verified/],
      ] as const) {
        const { status, body } = await call('POST', `/api/v1/${path}/approve`, { no: 'such' });
        expect([status, body.code]).toEqual([403, 'insufficient_permissions']);
        expect(body.message).toMatch(words);
      }
    expect(await tracesOf(api, asked)).toEqual(before);
  });

  it.each<[string, unknown, string | undefined]>([
    ['a note that is a number', { note: 5 }, 'note'],
    ['a note of 1025 characters', { note: 'x'.repeat(1025) }, 'note'],
    ['a note with NUL', { note: 'a\0b' }, 'note'],
    ['a member that is not known', { decision: 'approved' }, 'decision'],
    ['a list', [], undefined],
    ['broken JSON', '{', undefined],
    ['blanks', ' ', undefined],
  ])('with %s, before it is looked whether it is over', async (_what, body, param) => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    await expireIn(api, { approvalId: asked.approvalId, ms: -1 });
    const answer = await as(ann)('POST', `/api/v1/approvals/${asked.approvalId}/approve`, body);
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([400, 'invalid_request', param]);
  });

  it('of a form, and with a parameter', async () => {
    const { approvalId } = await askPeople(api, account, [{ approvers: [ann] }]);
    const path = `/api/v1/approvals/${approvalId}/approve`;
    const form = await as(ann)('POST', path, 'note=x', { 'content-type': 'application/x-www-form-urlencoded' });
    expect([form.status, form.body.message]).toEqual([400, 'The Content-Type must be application/json, in UTF-8.']);
    expect((await as(ann)('POST', `${path}?note=x`)).body.param).toBe('note');
  });

  it.each(['approve', 'reject'])('with 409 once somebody has rejected, saying who and when (%s)', async (verb) => {
    const asked = await askPeople(api, account, [{ approvers: [ann, bob], required: 2 }]);
    await as(ann)('POST', `/api/v1/approvals/${asked.approvalId}/reject`, { note: 'No.' });
    const before = await tracesOf(api, asked);
    for (const [email, path] of [
      [bob, `approvals/${asked.approvalId}`],
      [ann, `approvals/${asked.approvalId}`],
      [bob, `transactions/${asked.transactionId}`],
    ] as const) {
      const { status, body } = await as(email)('POST', `/api/v1/${path}/${verb}`, noBody);
      const decided_at = before.approval.decided_at!.toISOString();
      expect(status).toBe(409);
      expect(body).toMatchObject({
        code: 'approval_already_decided',
        type: 'invalid_request_error',
        message: `Approval ${asked.approvalId} is rejected already: by ${ann} at ${decided_at}.`,
        details: {
          approval_id: asked.approvalId,
          transaction_id: asked.transactionId,
          ledger_id: null,
          status: 'rejected',
          decisions: [{ approver: ann, decision: 'rejected', decided_at }],
          decided_at,
        },
      });
    }
    expect(await tracesOf(api, asked)).toEqual(before);
  });

  it('with 409 once the question was withdrawn', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    await cancelApprovals(api.pool, { paymentId: asked.transactionId });
    for (const path of [`approvals/${asked.approvalId}`, `transactions/${asked.transactionId}`]) {
      const { status, body } = await as(ann)('POST', `/api/v1/${path}/approve`);
      expect([status, body.code, body.details.status]).toEqual([409, 'approval_already_decided', 'cancelled']);
      expect(body.message).toMatch(/was withdrawn at .*Z: it is not needed any more\.$/);
    }
  });

  it('with 400 from its end on, also before the timer has come', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }]);
    const expiresAt = await expireIn(api, { approvalId: asked.approvalId, ms: 0 });
    for (const path of [`approvals/${asked.approvalId}`, `transactions/${asked.transactionId}`])
      for (const verb of verbs) {
        const { status, body } = await as(ann)('POST', `/api/v1/${path}/${verb}`);
        expect([status, body.code, body.details]).toEqual([
          400,
          'approval_timeout',
          {
            approval_id: asked.approvalId,
            transaction_id: asked.transactionId,
            ledger_id: null,
            status: 'expired',
            decisions: [],
            expires_at: expiresAt.toISOString(),
            decided_at: null,
          },
        ]);
      }
    expect(await tracesOf(api, asked)).toMatchObject({ approval: { decisions: [] }, events: [], audits: [] });
  });
});

describe('deciding a payment by its own id', () => {
  it.each([
    ['approve', 'approved'],
    ['reject', 'rejected'],
  ] as const)('%s answers all that is put to this person, and nothing else, together', async (verb, decision) => {
    const asked = await askPeople(api, account, [
      { approvers: [ann], timeoutSeconds: 7200 },
      { approvers: [ann, bob], timeoutSeconds: 3600 },
      { approvers: [bob], timeoutSeconds: 60 },
    ]);
    const [late, early, others] = asked.approvalIds as [string, string, string];
    const { status, body } = await as(ann)('POST', `/api/v1/transactions/${asked.transactionId}/${verb}`, {
      note: 'n',
    });
    expect([status, body.id, body.status, body.decisions[0].note]).toEqual([200, early, decision, 'n']);
    const xids = new Set<string>();
    for (const approvalId of [late, early]) {
      const { approval, events, audits } = await tracesOf(api, { ...asked, approvalId });
      expect([approval.status, events.length, audits.length]).toEqual([decision, 1, 1]);
      xids.add(approval.xid);
    }
    expect(xids.size).toBe(1);
    expect((await tracesOf(api, { ...asked, approvalId: others })).approval.status).toBe('pending');
  });

  it('leaves out what this person has answered, and is refused when nothing is left', async () => {
    const asked = await askPeople(api, account, [
      { approvers: [ann, bob], required: 2, timeoutSeconds: 60 },
      { approvers: [ann, bob], required: 2 },
    ]);
    const [first, second] = asked.approvalIds as [string, string];
    await as(ann)('POST', `/api/v1/approvals/${first}/approve`);
    const path = `/api/v1/transactions/${asked.transactionId}/approve`;
    expect((await as(ann)('POST', path)).body).toMatchObject({ id: second, status: 'pending' });
    const again = await as(ann)('POST', path);
    expect([again.status, again.body.code, again.body.details.approval_id]).toEqual([
      409,
      'approval_already_decided',
      first,
    ]);
    expect((await as(bob)('POST', path)).body).toMatchObject({ id: first, status: 'approved' });
    expect((await tracesOf(api, { ...asked, approvalId: second })).approval.status).toBe('approved');
  });

  it('decides nothing when one of the questions is over', async () => {
    const asked = await askPeople(api, account, [{ approvers: [ann] }, { approvers: [ann] }]);
    const [first, second] = asked.approvalIds as [string, string];
    await expireIn(api, { approvalId: first, ms: 0 });
    const { status, body } = await as(ann)('POST', `/api/v1/transactions/${asked.transactionId}/approve`);
    expect([status, body.code, body.details.approval_id]).toEqual([400, 'approval_timeout', first]);
    expect(await tracesOf(api, { ...asked, approvalId: second })).toMatchObject({
      approval: { status: 'pending', decisions: [] },
      audits: [],
    });
  });

  it('is refused where nobody is asked, and for a payment of another account', async () => {
    const { id } = await createAgent(account);
    const paid = await account.call('POST', '/api/v1/transactions', {
      agent_id: id,
      direction: 'outbound',
      type: 'transfer',
      to_address: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
      amount: '1',
      token: 'USDC',
      chain: 'eip155:31337',
    });
    const { status, body } = await as(ann)('POST', `/api/v1/transactions/${paid.body.id}/approve`);
    expect([status, body.code, body.message]).toEqual([
      400,
      'invalid_request',
      `Payment ${paid.body.id} needs nobody's approval: no policy asked for one.`,
    ]);
    const other = await api.account();
    const foreign = await askPeople(api, other, [{ approvers: [ann] }]);
    for (const unknown of [foreign.transactionId, 'tx_00000000000000000000000000', 'x'])
      expect((await as(ann)('POST', `/api/v1/transactions/${unknown}/approve`)).status).toBe(404);
  });
});
