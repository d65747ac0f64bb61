import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { createTestWebhook, webhookBody } from './webhook-calls.ts';

const nobody = '127.0.0.1:1';

describe('bad input of webhooks and events', () => {
  /** As in production, and as `npm start` has it. */
  let strict: TestApi;
  let trying: TestApi;
  let account: TestAccount;
  let tryingAccount: TestAccount;
  let id: string;

  beforeAll(async () => {
    strict = await startTestApi({ temporalAddress: nobody, allowLoopback: false });
    trying = await startTestApi({ temporalAddress: nobody });
    account = await strict.account();
    tryingAccount = await trying.account();
    id = (await createTestWebhook(account)).id;
  });
  afterAll(async () => {
    await strict?.stop();
    await trying?.stop();
  });

  async function expectRefusal(request: [string, string, unknown?], [param, message]: [string | undefined, RegExp]) {
    const [method, path, body] = request;
    const answer = await account.call(method, `/api/v1${path}`, body);
    expect([request, answer.status, answer.body.code, answer.body.param]).toEqual([
      request,
      400,
      'invalid_request',
      param,
    ]);
    expect(answer.body.message).toMatch(message);
  }

  it.each([
    'https://127.0.0.1/',
    'https://localhost/',
    'https://localhost./',
    'https://LOCALHOST/',
    'https://a.localhost/',
    'https://2130706433/',
    'https://0177.0.0.1/',
    'https://0x7f.1/',
    'https://0x7f000001/',
    'https://127.1/',
    'https://127.0.0.1./',
    'https://１２７.0.0.1/',
    'https://%31%32%37.0.0.1/',
    'https://0/',
    'https://0.0.0.0/',
    'https://[::]/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:7f00:1]/',
    'https://[0:0:0:0:0:ffff:10.0.0.1]/',
    'https://[::127.0.0.1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[64:ff9b:1::a9fe:a9fe]/',
    'https://[2002:7f00:1::]/',
    'https://[2001:0:7f00:1::]/',
    'https://[fe80::1]/',
    'https://[fc00::1]/',
    'https://[fd00:ec2::254]/',
    'https://[ff02::1]/',
    'https://[2001:db8::1]/',
    'https://10.0.0.1/',
    'https://172.16.0.1/',
    'https://172.31.255.255/',
    'https://192.168.1.1/',
    'https://100.64.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://2852039166/latest/meta-data/',
    'https://0xa9fea9fe/',
    'https://198.18.0.1/',
    'https://224.0.0.1/',
    'https://255.255.255.255/',
    'https://metadata.google.internal/',
    'https://printer.local/',
    'https://postgres/',
  ])('F42: a place that is not public, %s, is refused at registration and at change', async (url) => {
    const expected: [string, RegExp] = ['url', /^url must be on the public internet: .+ is not\.$/];
    await expectRefusal(['POST', '/webhooks', webhookBody({ url })], expected);
    await expectRefusal(['PUT', `/webhooks/${id}`, { url }], expected);
  });

  it.each<[unknown, RegExp]>([
    [undefined, /url is required/],
    [5, /url must be a string, not a number/],
    ['', /absolute URL/],
    ['/events', /absolute URL/],
    ['http://example.com/', /must begin with https:\/\//],
    ['http://127.0.0.1/', /must begin with https:\/\//],
    ['ftp://example.com/', /must begin with https:\/\//],
    ['https://user@example.com/', /user or a password/],
    ['https://user:word@example.com/', /user or a password/],
    ['https://@example.com/', /user or a password/],
    ['https://example.com/#part', /fragment/],
    ['https://example.com/#', /fragment/],
    ['https://example.com/a b', /spaces/],
    ['https://example.com/\u0000', /control characters/],
    ['https://example.com\\@localhost/', /backslashes/],
    [`https://example.com/${'a'.repeat(2029)}`, /at most 2048 characters/],
    ['https://1.2.3.4.5/', /absolute URL|public internet/],
    ['https://[::1', /absolute URL/],
    ['https://example.com:99999/', /absolute URL/],
  ])('the url %j is refused', async (url, message) => {
    await expectRefusal(['POST', '/webhooks', webhookBody({ url })], ['url', message]);
    if (url !== undefined) await expectRefusal(['PUT', `/webhooks/${id}`, { url }], ['url', message]);
  });

  it('takes whatever place is public, and keeps its url as it was written', async () => {
    for (const url of [
      'https://example.com',
      'https://example.com:8443/a?b=c',
      'https://1.1.1.1/hooks',
      'https://[2606:4700:4700::1111]/',
      'https://bücher.example/',
      `https://example.com/${'a'.repeat(2028)}`,
    ])
      expect((await account.call('POST', '/api/v1/webhooks', webhookBody({ url }))).body.url).toBe(url);
  });

  it('takes this machine, by http too, only where the installation is for trying out', async () => {
    for (const url of ['http://127.0.0.1:4000/', 'http://localhost:4000/', 'http://[::1]:4000/', 'https://127.0.0.2/'])
      expect((await tryingAccount.call('POST', '/api/v1/webhooks', webhookBody({ url }))).body.url).toBe(url);
    for (const url of [
      'http://[::ffff:127.0.0.1]/',
      'https://[::ffff:127.0.0.1]/',
      'https://10.0.0.1/',
      'http://example.com/',
    ]) {
      const { status, body } = await tryingAccount.call('POST', '/api/v1/webhooks', webhookBody({ url }));
      expect([url, status, body.param]).toEqual([url, 400, 'url']);
    }
  });

  it.each<[unknown, string, RegExp]>([
    [[], 'events', /must name at least one kind/],
    ['payment.completed', 'events', /must be an array, not a string/],
    [[5], 'events.0', /must be a string, not a number/],
    [[null], 'events.0', /must be a string, not null/],
    [['payment.*'], 'events', /unknown kinds of events: "payment\.\*"/],
    [['Payment.completed'], 'events', /unknown kinds of events: "Payment\.completed"/],
    [['x'.repeat(10_000)], 'events', /^.{0,600}$/],
  ])('the kinds of events %j are refused', async (events, param, message) => {
    await expectRefusal(['POST', '/webhooks', webhookBody({ events })], [param, message]);
    await expectRefusal(['PUT', `/webhooks/${id}`, { events }], [param, message]);
  });

  it.each<[unknown, RegExp]>([
    [undefined, /secret is required/],
    [null, /secret must be a string/],
    [5, /secret must be a string/],
    ['correct horse battery staple', /secret must begin with whsec_/],
    ['whsec_short', /secret must have at least 16 bytes after whsec_/],
    ['whsec_correct horse battery staple\n', /copied with a line end/],
    [`whsec_${'correct horse '.repeat(18)}`, /at most 256 characters|at its ends/],
  ])('F9: the secret %j is refused by a sentence that does not repeat it', async (secret, message) => {
    const { secret: _, ...rest } = webhookBody();
    for (const request of [
      ['POST', '/webhooks', { ...rest, ...(secret !== undefined && { secret }) }],
      ['POST', `/webhooks/${id}/rotate-secret`, secret === undefined ? {} : { secret }],
    ] as [string, string, unknown][]) {
      await expectRefusal(request, ['secret', message]);
      const { body } = await account.call(request[0], `/api/v1${request[1]}`, request[2]);
      expect(JSON.stringify(body)).not.toMatch(/horse|short/);
    }
  });

  it.each<[string, string, RegExp]>([
    ['/events?type=payment.done', 'type', /type must be "payment.pending" or/],
    ['/events?resource_id=%00', 'resource_id', /must be an identifier/],
    ['/events?resource_id=', 'resource_id', /must be an identifier/],
    ['/events?from=yesterday', 'from', /ISO 8601/],
    ['/events?from=2026-03-01', 'from', /ISO 8601/],
    ['/events?from=2026-03-01T12:00:00', 'from', /with Z or an offset/],
    ['/events?from=2026-02-30T12:00:00Z', 'from', /ISO 8601/],
    ['/events?to=2026-03-01T12:00:00+02:00', 'to', /written as %2B/],
    ['/events?from=2026-03-01T12:00:00Z&to=2026-03-01T14:00:00%2B02:00', 'from', /from must be before to/],
    ['/events?from=2026-03-02T12:00:00Z&to=2026-03-01T12:00:00Z', 'from', /from must be before to/],
    ['/events?page_size=101', 'page_size', /1 to 100/],
    ['/events?page_num=0', 'page_num', /from 1 up/],
    ['/events?agent_id=x', 'agent_id', /not known here/],
    ['/webhooks?status=active', 'status', /not known here/],
    ['/webhooks?page_size=0', 'page_size', /1 to 100/],
  ])('the query of %s is refused', async (path, param, message) => {
    await expectRefusal(['GET', path], [param, message]);
  });

  it.each<[string, string]>([
    ['status=done', 'status'],
    ['event_type=x', 'event_type'],
    ['event_id=%F0%9F%92%B8', 'event_id'],
    ['from=x', 'from'],
    ['webhook_id=x', 'webhook_id'],
  ])('the query %s of deliveries is refused', async (query, param) => {
    await expectRefusal(['GET', `/webhooks/${id}/deliveries?${query}`], [param, /./]);
  });

  it('takes no members where there are none to give', async () => {
    for (const path of ['/test', '/deliveries/x/redeliver']) {
      const answer = await account.call('POST', `/api/v1/webhooks/${id}${path}`, { event: 'payment.completed' });
      expect([path, answer.status]).toEqual([path, path === '/test' ? 400 : 404]);
    }
  });

  it('is 400 and never 500, whatever is sent in whatever member or parameter', async () => {
    const member = fc.oneof(fc.jsonValue(), fc.string({ unit: 'binary' }), fc.webUrl(), fc.constant(undefined));
    const body = fc.record({ url: member, events: member, secret: member, status: member }, { requiredKeys: [] });
    await fc.assert(
      fc.asyncProperty(
        body,
        fc.constantFrom('/webhooks', `/webhooks/${id}`, `/webhooks/${id}/rotate-secret`),
        async (given, path) => {
          const { status } = await account.call(
            path === `/webhooks/${id}` ? 'PUT' : 'POST',
            `/api/v1${path}`,
            JSON.stringify(given),
          );
          expect([200, 400]).toContain(status);
        },
      ),
      { numRuns: 150 },
    );
    const parameter = fc.constantFrom(
      'type',
      'resource_id',
      'from',
      'to',
      'page_num',
      'status',
      'event_id',
      'event_type',
    );
    const value = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.date().map((date) => (Number.isNaN(date.getTime()) ? 'x' : date.toISOString())),
      fc.constantFrom('0000-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z', '2026-03-01T12:00:00.123456789-23:59'),
    );
    await fc.assert(
      fc.asyncProperty(
        parameter,
        value,
        fc.constantFrom('/events', `/webhooks/${id}/deliveries`),
        async (name, text, path) => {
          const query = new URLSearchParams({ [name]: text.toWellFormed() });
          const { status } = await account.call('GET', `/api/v1${path}?${query}`);
          expect([200, 400]).toContain(status);
        },
      ),
      { numRuns: 150 },
    );
  });
});
