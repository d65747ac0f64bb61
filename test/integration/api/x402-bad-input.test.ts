import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTarget, type TestTarget } from '../../support/target.ts';
import { createAgent, startTestApi, type TestAccount, type TestApi } from './harness.ts';
import { expectBalancedBooks, openSession, startShop } from './x402-calls.ts';

const nobody = '127.0.0.1:1';
const base = '/api/v1/x402/sessions';

describe('bad input to x402 sessions', () => {
  let api: TestApi;
  let shop: TestTarget;
  let account: TestAccount;
  let agentId: string;
  let strangerId: string;
  let sessionId: string;
  beforeAll(async () => {
    [api, shop] = await Promise.all([startTestApi({ temporalAddress: nobody }), startShop()]);
    account = await api.account();
    agentId = (await createAgent(account)).id;
    strangerId = (await createAgent(await api.account())).id;
    sessionId = (await openSession(api, { account, agentId })).id;
  });
  afterAll(async () => {
    await shop?.stop();
    await api?.stop();
  });

  async function expectRefusal(
    request: [method: string, path: string, body?: unknown],
    [status, code, param]: [number, string, string?],
  ) {
    const answer = await account.call(...request);
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([status, code, param]);
    expect(answer.body.message).toContain(param ?? '');
  }

  const wish = () => ({ agent_id: agentId, budget_limit: '5', chain: 'eip155:31337', ttl_seconds: 60 });
  const longUrl = `https://example.org/${'x'.repeat(2048)}`;

  it.each<[string, Record<string, unknown>, string, string?]>([
    ['no agent', { agent_id: undefined }, 'agent_id'],
    ['an agent that is no id', { agent_id: 'agent_x' }, 'agent_id'],
    ['an agent with NUL', { agent_id: 'agent_\0' }, 'agent_id'],
    ['no budget', { budget_limit: undefined }, 'budget_limit'],
    ['a budget that is a number', { budget_limit: 5 }, 'budget_limit'],
    ['a budget of zero', { budget_limit: '0.00' }, 'budget_limit', 'invalid_amount'],
    ['a negative budget', { budget_limit: '-1' }, 'budget_limit', 'invalid_amount'],
    ['an exponent', { budget_limit: '1e3' }, 'budget_limit', 'invalid_amount'],
    ['seven digits for six decimals', { budget_limit: '0.0000001' }, 'budget_limit', 'invalid_amount'],
    ['more than 2^256', { budget_limit: `1${'0'.repeat(78)}` }, 'budget_limit', 'invalid_amount'],
    ['no chain', { chain: undefined }, 'chain'],
    ['an unknown chain', { chain: 'eip155:5' }, 'chain', 'invalid_chain'],
    ['a chain of another family', { chain: 'tron:0x2b6653dc' }, 'chain', 'invalid_chain'],
    ['an unknown token', { token: 'WETH' }, 'token', 'invalid_token'],
    ['the native coin', { token: 'eth' }, 'token', 'invalid_token'],
    ['a token that is a number', { token: 1 }, 'token'],
    ['no time', { ttl_seconds: undefined }, 'ttl_seconds'],
    ['59 seconds', { ttl_seconds: 59 }, 'ttl_seconds'],
    ['more than 30 days', { ttl_seconds: 2_592_001 }, 'ttl_seconds'],
    ['half a second', { ttl_seconds: 60.5 }, 'ttl_seconds'],
    ['a time that is text', { ttl_seconds: '60' }, 'ttl_seconds'],
    ['an unknown member', { budget_spent: '0' }, 'budget_spent'],
    ['URLs that are text', { allowed_urls: 'https://example.org' }, 'allowed_urls'],
    ['an empty list of URLs', { allowed_urls: [] }, 'allowed_urls'],
    ['101 URLs', { allowed_urls: Array.from({ length: 101 }, (_, i) => `https://example.org/${i}`) }, 'allowed_urls'],
    ['a URL that is null', { allowed_urls: [null] }, 'allowed_urls.0'],
    ['a URL that is none', { allowed_urls: ['https://example.org', 'example.org'] }, 'allowed_urls.1'],
    ['a URL by http', { allowed_urls: ['http://example.org'] }, 'allowed_urls.0'],
    ['a URL with a query', { allowed_urls: ['https://example.org/?a=1'] }, 'allowed_urls.0'],
    ['a URL with a fragment', { allowed_urls: ['https://example.org/#a'] }, 'allowed_urls.0'],
    ['a URL with a user', { allowed_urls: ['https://me@example.org/'] }, 'allowed_urls.0'],
    ['a URL with NUL', { allowed_urls: ['https://example.org/\0'] }, 'allowed_urls.0'],
    ['a URL with a lone surrogate', { allowed_urls: ['https://example.org/\ud800'] }, 'allowed_urls.0'],
    ['a URL that is too long', { allowed_urls: [longUrl] }, 'allowed_urls.0'],
  ])('refuses a session with %s', async (_what, change, param, code = 'invalid_request') => {
    await expectRefusal(['POST', base, { ...wish(), ...change }], [400, code, param]);
  });

  it("refuses a session of another account's agent", async () => {
    const body = { ...wish(), agent_id: strangerId };
    await expectRefusal(['POST', base, body], [400, 'invalid_request', 'agent_id']);
  });

  const manyHeaders = Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`x-${i}`, 'x']));

  it.each<[string, Record<string, unknown>, string, string?]>([
    ['no URL', { target_url: undefined }, 'target_url'],
    ['a URL that is null', { target_url: null }, 'target_url'],
    ['a URL that is a number', { target_url: 1 }, 'target_url'],
    ['a URL that is empty', { target_url: '' }, 'target_url'],
    ['a path', { target_url: '/data' }, 'target_url'],
    ['a URL by http', { target_url: 'http://example.org/' }, 'target_url'],
    ['a file', { target_url: 'file:///etc/passwd' }, 'target_url'],
    ['a script', { target_url: 'javascript:alert(1)' }, 'target_url'],
    ['a URL with a user', { target_url: 'https://a:b@example.org/' }, 'target_url'],
    ['a URL with a fragment', { target_url: 'https://example.org/#x' }, 'target_url'],
    ['a URL with a line break', { target_url: 'https://example.org/\r\nx: y' }, 'target_url'],
    ['a URL with NUL', { target_url: 'https://example.org/\0' }, 'target_url'],
    ['a URL with a lone surrogate', { target_url: 'https://example.org/\udc00' }, 'target_url'],
    ['a URL that is too long', { target_url: longUrl }, 'target_url'],
    ['an unknown method', { method: 'TRACE' }, 'method'],
    ['CONNECT', { method: 'CONNECT' }, 'method'],
    ['a method in small letters', { method: 'get' }, 'method'],
    ['headers that are text', { headers: 'x: y' }, 'headers'],
    ['a header that is a list', { headers: { x: ['y'] } }, 'headers.x'],
    ['a header with a line break', { headers: { x: 'a\r\nb: c' } }, 'headers.x'],
    ['a header with NUL', { headers: { x: '\0' } }, 'headers.x'],
    ['a header beyond ASCII', { headers: { x: 'ü' } }, 'headers.x'],
    ['a header that begins with a space', { headers: { x: ' a' } }, 'headers.x'],
    ['a name of a header with a space', { headers: { 'x y': 'a' } }, 'headers.x y'],
    ['a header without a name', { headers: { '': 'a' } }, 'headers.'],
    ['a header twice', { headers: { 'X-A': 'a', 'x-a': 'b' } }, 'headers'],
    ['33 headers', { headers: manyHeaders }, 'headers'],
    ['headers of more than 8 KiB', { headers: { x: 'x'.repeat(8192) } }, 'headers'],
    ['the header Host', { headers: { Host: 'internal' } }, 'headers.Host'],
    ['a length', { headers: { 'content-length': '0' } }, 'headers.content-length'],
    ['an encoding of its own', { headers: { 'Transfer-Encoding': 'chunked' } }, 'headers.Transfer-Encoding'],
    ['an upgrade', { headers: { upgrade: 'h2c' } }, 'headers.upgrade'],
    ['a payment', { headers: { 'payment-signature': 'x' } }, 'headers.payment-signature'],
    ['a payment of version 1', { headers: { 'X-Payment': 'x' } }, 'headers.X-Payment'],
    ['a body that is an object', { method: 'POST', body: {} }, 'body'],
    ['a body without a method that has one', { body: 'x' }, 'body'],
    ['a body with HEAD', { method: 'HEAD', body: '' }, 'body'],
    ['a body with a lone surrogate', { method: 'POST', body: '\ud800' }, 'body'],
    ['a body of more than 64 KiB', { method: 'POST', body: 'x'.repeat(65_537) }, 'body'],
    ['a most that is a number', { max_amount: 1 }, 'max_amount'],
    ['a most of zero', { max_amount: '0' }, 'max_amount', 'invalid_amount'],
    ['a most with seven digits', { max_amount: '0.0000001' }, 'max_amount', 'invalid_amount'],
    ['an unknown member', { amount: '1' }, 'amount'],
  ])('refuses to pay with %s, before the target is asked', async (_what, change, param, code = 'invalid_request') => {
    const body = { target_url: `${shop.url}/1`, ...change };
    await expectRefusal(['POST', `${base}/${sessionId}/pay`, body], [400, code, param]);
    expect(shop.connections()).toBe(0);
    expect((await expectBalancedBooks(api, sessionId)).payments).toEqual([]);
  });

  it('never answers anything but 200 or 400 to a body of any JSON', async () => {
    const member = fc.constantFrom('target_url', 'method', 'headers', 'body', 'max_amount', 'agent_id', 'allowed_urls');
    const body = fc.oneof(fc.jsonValue(), fc.dictionary(member, fc.jsonValue()));
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(base, `${base}/${sessionId}/pay`), body, async (path, each) => {
        expect((await account.call('POST', path, JSON.stringify(each))).status).toBe(400);
      }),
      { numRuns: 100 },
    );
  });

  it('sends whatever header it takes, unchanged', async () => {
    const seen: (string | undefined)[] = [];
    const value = fc.stringMatching(/^[\x21-\x7e]([\x20-\x7e\t]{0,20}[\x21-\x7e])?$/);
    const target = await startTarget((request, response) => {
      seen.push(request.headers['x-any'] as string | undefined);
      response.writeHead(200).end();
    });
    await fc.assert(
      fc.asyncProperty(value, async (any) => {
        const body = { target_url: target.url, headers: { 'X-Any': any } };
        const answer = await account.call('POST', `${base}/${sessionId}/pay`, body);
        expect([answer.body.code, seen.at(-1)]).toEqual(['payment_not_required', any]);
      }),
      { numRuns: 50 },
    );
    await target.stop();
  });

  it.each(['sess_00000000000000000000000000', 'sess_x', 'tx_00000000000000000000000000', '%00', 'a'.repeat(4000)])(
    'answers 404 for the session %s',
    async (id) => {
      const requests: [string, string, unknown?][] = [
        ['GET', `${base}/${id}`],
        ['DELETE', `${base}/${id}`],
        ['GET', `${base}/${id}/payments`],
        ['GET', `${base}/${id}/payments/led_x`],
        ['POST', `${base}/${id}/pay`, {}],
      ];
      for (const request of requests) await expectRefusal(request, [404, 'resource_not_found']);
    },
  );

  it.each<[string, string]>([
    ['page_size=101', 'page_size'],
    ['status=pending', 'status'],
    ['agent_id=agent_x', 'agent_id'],
    ['chain=eip155:1', 'chain'],
  ])('refuses the query %s of the list of sessions', async (query, param) => {
    await expectRefusal(['GET', `${base}?${query}`], [400, 'invalid_request', param]);
  });

  it('refuses what a list of payments does not have', async () => {
    const path = `${base}/${sessionId}/payments?status=completed`;
    await expectRefusal(['GET', path], [400, 'invalid_request', 'status']);
  });
});
