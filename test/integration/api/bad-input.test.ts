import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { policyKinds } from '../../../shared/domain/policy/engine.ts';
import {
  createAgent,
  payment,
  recipient,
  startTestApi,
  type TestAccount,
  type TestApi,
  usdcContract,
} from './harness.ts';

const nobody = '127.0.0.1:1';
const types: Record<string, string> = {
  authentication_failed: 'authentication_error',
  resource_not_found: 'not_found_error',
};

describe('bad input', () => {
  let api: TestApi;
  let account: TestAccount;
  let agentId: string;
  let strangerId: string;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: nobody });
    account = await api.account();
    agentId = (await createAgent(account)).id;
    strangerId = (await createAgent(await api.account())).id;
  });
  afterAll(() => api?.stop());

  /** Status, code and the whole error object, which is the same everywhere. */
  async function expectRefusal(
    request: [method: string, path: string, body?: unknown, headers?: Record<string, string>],
    [status, code, param]: [number, string, string?],
  ) {
    const answer = await account.call(...request);
    expect(answer.body).toMatchObject({
      code,
      type: types[code] ?? 'invalid_request_error',
      message: expect.any(String),
      request_id: answer.headers.get('x-request-id'),
    });
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([status, code, param]);
  }

  const bytes = (...parts: (string | number[])[]) =>
    new Uint8Array(Buffer.concat(parts.map((part) => Buffer.from(part as string))));
  const valid = { agent_name: 'x', chain: 'eip155:31337' };
  const nested = `{"agent_name":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;

  it.each<[string, unknown, Record<string, string>?, string?]>([
    ['no body', undefined],
    ['an empty body', ''],
    ['an array', []],
    ['a string', '"text"'],
    ['a number', '5'],
    ['null', 'null'],
    ['broken JSON', '{"agent_name":'],
    ['JSON with a comment', '{"agent_name":"x",/* */"chain":"eip155:31337"}'],
    ['JSON with a trailing comma', '{"agent_name":"x","chain":"eip155:31337",}'],
    ['two documents', '{}{}'],
    ['NaN', '{"agent_name":NaN}'],
    ['1 MB', JSON.stringify({ agent_name: 'x'.repeat(1_000_000), chain: 'eip155:31337' })],
    ['one byte more than is read', JSON.stringify({ agent_name: 'x'.repeat(256 * 1024) })],
    ['broken UTF-8', bytes('{"agent_name":"', [0xff, 0xfe], '","chain":"eip155:31337"}')],
    ['an overlong UTF-8 sequence', bytes('{"agent_name":"', [0xc0, 0xaf], '"}')],
    ['a surrogate encoded in UTF-8', bytes('{"agent_name":"', [0xed, 0xa0, 0x80], '"}')],
    ['UTF-16', new Uint8Array(Buffer.from('{"agent_name":"x"}', 'utf16le'))],
    ['a member given twice with different values', '{"agent_name":"a","agent_name":"b","chain":"eip155:31337"}'],
    ['the same, one name escaped', '{"agent_name":"a","\\u0061gent_name":"b","chain":"eip155:31337"}'],
    ['a hundred thousand levels', nested],
    ['a hidden hundred thousand levels', `${nested.slice(0, -1)},"agent_name":"x"}`],
    ['text/plain', valid, { 'content-type': 'text/plain' }],
    ['a form', 'agent_name=x', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['no content type', new Uint8Array(Buffer.from(JSON.stringify(valid))), { 'content-type': '' }],
    ['another charset', valid, { 'content-type': 'application/json; charset=latin1' }],
    ['a content encoding', valid, { 'content-encoding': 'gzip' }],
    ['__proto__', '{"__proto__":{"agent_name":"x"},"agent_name":"x","chain":"eip155:31337"}', {}, '__proto__'],
    ['constructor', { ...valid, constructor: 1 }, {}, 'constructor'],
    ['an unknown member', { ...valid, extra: 1 }, {}, 'extra'],
  ])('refuses a body that is %s', async (_what, body, headers = {}, param = undefined) => {
    await expectRefusal(['POST', '/api/v1/agents', body, headers], [
      400,
      'invalid_request',
      ...(param === undefined ? [] : [param]),
    ] as [number, string, string?]);
  });

  it('accepts a member given twice with the same value, a byte order mark, and a charset of UTF-8', async () => {
    const twice = '\ufeff{"agent_name":"twice","agent_name":"twice","chain":"eip155:31337"}';
    const answer = await account.call('POST', '/api/v1/agents', twice, {
      'content-type': 'Application/JSON; charset="UTF-8"',
    });
    expect(answer.status).toBe(200);
  });

  it.each<[string, Record<string, unknown>, string, string?]>([
    ['no name', { agent_name: undefined }, 'agent_name'],
    ['a name that is null', { agent_name: null }, 'agent_name'],
    ['a name that is a number', { agent_name: 5 }, 'agent_name'],
    ['a name that is an object', { agent_name: {} }, 'agent_name'],
    ['an empty name', { agent_name: '' }, 'agent_name'],
    ['a name of 129 characters', { agent_name: 'é'.repeat(129) }, 'agent_name'],
    ['a name with NUL', { agent_name: 'a\0b' }, 'agent_name'],
    ['a name with a newline', { agent_name: 'a\nb' }, 'agent_name'],
    ['a name with DEL', { agent_name: 'a\u007fb' }, 'agent_name'],
    ['a name with a lone surrogate', { agent_name: 'a\ud800b' }, 'agent_name'],
    ['a description with NUL', { agent_description: '\0' }, 'agent_description'],
    ['a description of 1025 characters', { agent_description: 'x'.repeat(1025) }, 'agent_description'],
    ['metadata that is an object', { metadata: {} }, 'metadata'],
    ['metadata that is no JSON', { metadata: '{' }, 'metadata'],
    ['metadata that is a JSON array', { metadata: '[]' }, 'metadata'],
    ['metadata that is JSON null', { metadata: 'null' }, 'metadata'],
    ['metadata with NUL', { metadata: '{"a":"\0"}' }, 'metadata'],
    ['metadata with a lone surrogate', { metadata: '{"a":"\udc00"}' }, 'metadata'],
    ['metadata over 16 KiB', { metadata: JSON.stringify({ a: 'x'.repeat(16 * 1024) }) }, 'metadata'],
    ['no chain', { chain: undefined }, 'chain'],
    ['an unknown chain', { chain: 'eip155:5' }, 'chain', 'invalid_chain'],
    ['a mainnet in sandbox', { chain: 'eip155:1' }, 'chain', 'invalid_chain'],
    ['a chain named like an inherited member', { chain: 'constructor' }, 'chain', 'invalid_chain'],
    ['a chain that is a number', { chain: 1 }, 'chain'],
  ])('refuses an agent with %s', async (_what, change, param, code = 'invalid_request') => {
    await expectRefusal(['POST', '/api/v1/agents', { ...valid, ...change }], [400, code, param]);
  });

  it.each<[string, Record<string, unknown>, string, string]>([
    ['an amount that is a number (F7)', { amount: 12.5 }, 'invalid_request', 'amount'],
    ['no amount', { amount: undefined }, 'invalid_request', 'amount'],
    ['an empty amount', { amount: '' }, 'invalid_amount', 'amount'],
    ['a negative amount', { amount: '-1' }, 'invalid_amount', 'amount'],
    ['an exponent (F33)', { amount: '1e3' }, 'invalid_amount', 'amount'],
    ['a plus sign (F33)', { amount: '+1' }, 'invalid_amount', 'amount'],
    ['a hexadecimal amount (F33)', { amount: '0x1' }, 'invalid_amount', 'amount'],
    ['a space before the amount (F33)', { amount: ' 1' }, 'invalid_amount', 'amount'],
    ['a newline after the amount', { amount: '1\n' }, 'invalid_amount', 'amount'],
    ['a comma', { amount: '1,5' }, 'invalid_amount', 'amount'],
    ['a leading zero', { amount: '01' }, 'invalid_amount', 'amount'],
    ['no digit before the point', { amount: '.5' }, 'invalid_amount', 'amount'],
    ['no digit after the point', { amount: '1.' }, 'invalid_amount', 'amount'],
    ['digits of another script', { amount: '١' }, 'invalid_amount', 'amount'],
    ['NaN', { amount: 'NaN' }, 'invalid_amount', 'amount'],
    ['seven digits for six decimals (F33)', { amount: '0.0000001' }, 'invalid_amount', 'amount'],
    ['19 digits for 18 decimals (F33)', { amount: '0.0000000000000000001', token: 'ETH' }, 'invalid_amount', 'amount'],
    ['zero', { amount: '0' }, 'invalid_amount', 'amount'],
    ['zero with decimals', { amount: '0.000' }, 'invalid_amount', 'amount'],
    ['more than 2^256', { amount: `1${'0'.repeat(78)}` }, 'invalid_amount', 'amount'],
    ['a thousand digits', { amount: '1'.repeat(1000) }, 'invalid_amount', 'amount'],
    ['the zero address', { to_address: `0x${'0'.repeat(40)}` }, 'invalid_address', 'to_address'],
    ["the token's contract", { to_address: usdcContract }, 'invalid_address', 'to_address'],
    ["the token's contract in lower case", { to_address: usdcContract.toLowerCase() }, 'invalid_address', 'to_address'],
    ['a wrong checksum', { to_address: recipient.replace('B5', 'b5') }, 'invalid_address', 'to_address'],
    ['0X', { to_address: recipient.replace('0x', '0X') }, 'invalid_address', 'to_address'],
    ['no 0x', { to_address: recipient.slice(2) }, 'invalid_address', 'to_address'],
    ['39 digits', { to_address: recipient.slice(0, -1) }, 'invalid_address', 'to_address'],
    ['a name', { to_address: 'vitalik.eth' }, 'invalid_address', 'to_address'],
    ['an empty recipient', { to_address: '' }, 'invalid_address', 'to_address'],
    ['a recipient that is null', { to_address: null }, 'invalid_request', 'to_address'],
    ["another's address as sender", { from_address: recipient }, 'invalid_address', 'from_address'],
    ['a malformed sender', { from_address: 'me' }, 'invalid_address', 'from_address'],
    ['an unknown chain', { chain: 'eip155:5' }, 'invalid_chain', 'chain'],
    ['a chain without namespace', { chain: '31337' }, 'invalid_chain', 'chain'],
    ['an unknown token', { token: 'WETH' }, 'invalid_token', 'token'],
    ['an empty token', { token: '' }, 'invalid_token', 'token'],
    ['a token of another chain', { chain: 'eip155:84532', token: 'BNB' }, 'invalid_token', 'token'],
    ['direction inbound', { direction: 'inbound' }, 'invalid_request', 'direction'],
    ['no type', { type: undefined }, 'invalid_request', 'type'],
    ['an unknown type', { type: 'swap' }, 'invalid_request', 'type'],
    ['a memo of 513 characters', { memo: '𝔪'.repeat(513) }, 'invalid_request', 'memo'],
    ['a memo with ESC', { memo: '\u001b[31m' }, 'invalid_request', 'memo'],
    ['a memo that is false', { memo: false }, 'invalid_request', 'memo'],
    ['an unknown member', { gas: '1' }, 'invalid_request', 'gas'],
    ['no agent', { agent_id: undefined }, 'invalid_request', 'agent_id'],
    ['an unknown agent', { agent_id: 'agent_00000000000000000000000000' }, 'invalid_request', 'agent_id'],
    ['a malformed agent id', { agent_id: "agent_'; drop table agents" }, 'invalid_request', 'agent_id'],
    ['an agent id with NUL', { agent_id: 'agent_\0' }, 'invalid_request', 'agent_id'],
  ])('refuses a payment with %s, and stores nothing', async (_what, change, code, param) => {
    await expectRefusal(['POST', '/api/v1/transactions', payment(agentId, change)], [400, code, param]);
    expect((await account.call('GET', '/api/v1/transactions')).body.total).toBe(0);
  });

  it("refuses a payment by another account's agent", async () => {
    await expectRefusal(['POST', '/api/v1/transactions', payment(strangerId)], [400, 'invalid_request', 'agent_id']);
  });

  const policyTypes = Object.keys(policyKinds);
  const limits = () => ({ agent_id: agentId, type: 'spending_limit', rules: { daily_limit: '1' } });

  it.each<[string, Record<string, unknown>, string, string?]>([
    ['no agent', { agent_id: undefined }, 'agent_id'],
    ['an agent that is null', { agent_id: null }, 'agent_id'],
    ['an agent that is no id', { agent_id: 'agent_x' }, 'agent_id'],
    ['an agent with NUL', { agent_id: 'agent_\0' }, 'agent_id'],
    ['a member that it does not have', { name: 'x' }, 'name'],
    ['a type that is an object', { type: {} }, 'type'],
    ['a type named like an inherited member', { type: 'constructor' }, 'type'],
    ['rules that are text', { rules: 'x' }, 'rules'],
    ['a limit with NUL', { rules: { daily_limit: '1\0' } }, 'rules.daily_limit', 'invalid_amount'],
    ['a limit in full-width digits', { rules: { daily_limit: '１' } }, 'rules.daily_limit', 'invalid_amount'],
    ['a limit of 116 digits', { rules: { daily_limit: '9'.repeat(116) } }, 'rules.daily_limit', 'invalid_amount'],
    ['a token with NUL', { rules: { daily_limit: '1', token: '\0' } }, 'rules.token', 'invalid_token'],
    ['a token with a lone surrogate', { rules: { daily_limit: '1', token: '\ud800' } }, 'rules.token', 'invalid_token'],
    [
      'an address with a look-alike',
      { type: 'address_control', rules: { allowed_addresses: [recipient.toLowerCase().replace('a', 'а')] } },
      'rules.allowed_addresses.0',
      'invalid_address',
    ],
    [
      'an address with a lone surrogate',
      { type: 'address_control', rules: { allowed_addresses: [`${recipient}\udc00`] } },
      'rules.allowed_addresses.0',
      'invalid_address',
    ],
    [
      '1001 addresses',
      { type: 'address_control', rules: { allowed_addresses: Array(1001).fill(recipient) } },
      'rules.allowed_addresses',
    ],
    [
      'a count past what numbers carry',
      { type: 'velocity_control', rules: { max_count: 2 ** 53, window_seconds: 1 } },
      'rules.max_count',
    ],
    ['a time zone with NUL', { type: 'schedule', rules: { timezone: 'UTC\0', allowed_days: [1] } }, 'rules.timezone'],
    [
      'an approver with a line break',
      { type: 'human_approval', rules: { threshold: '1', approvers: ['a@example.com\nb@example.com'] } },
      'rules.approvers.0',
    ],
  ])('refuses a policy with %s', async (_what, change, param, code = 'invalid_request') => {
    await expectRefusal(['POST', '/api/v1/policies', { ...limits(), ...change }], [400, code, param]);
  });

  it('refuses a policy with a member that is named like an inherited one', async () => {
    for (const member of ['__proto__', 'constructor', 'toString'])
      for (const value of ['{}', 'null']) {
        const body = `{"agent_id":"${agentId}","type":"spending_limit","rules":{"daily_limit":"1","${member}":${value}}}`;
        await expectRefusal(['POST', '/api/v1/policies', body], [400, 'invalid_request', `rules.${member}`]);
      }
  });

  it("refuses a policy for another account's agent", async () => {
    const body = { ...limits(), agent_id: strangerId };
    await expectRefusal(['POST', '/api/v1/policies', body], [400, 'invalid_request', 'agent_id']);
  });

  it('never answers anything but 200 or 400 to a policy with rules of any JSON', async () => {
    const member = fc.constantFrom('allowed_tokens', 'allowed_days', 'allowed_hours', 'timezone', 'token', 'approvers');
    const rules = fc.oneof(fc.jsonValue(), fc.dictionary(member, fc.jsonValue()));
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...policyTypes), rules, async (type, each) => {
        const { status } = await account.call('POST', '/api/v1/policies', { ...limits(), type, rules: each });
        expect([200, 400]).toContain(status);
      }),
      { numRuns: 100 },
    );
  });

  it.each<[string, string]>([
    ['page_size=0', 'page_size'],
    ['page_size=101', 'page_size'],
    ['page_size=1%20', 'page_size'],
    ['page_size=1+', 'page_size'],
    ['page_size=1.0', 'page_size'],
    ['page_size=', 'page_size'],
    ['page_size=%00', 'page_size'],
    ['page_num=0', 'page_num'],
    ['page_num=-1', 'page_num'],
    ['page_num=1e1', 'page_num'],
    ['page_num=01', 'page_num'],
    ['page_num=99999999999999999999', 'page_num'],
    ['page_num=%zz', 'page_num'],
    ['page_num=1&page_num=2', 'page_num'],
    ['page_num=1&page_num=1', 'page_num'],
    ['page_num[]=1', 'page_num[]'],
    ['status=open', 'status'],
    ['status=', 'status'],
    ['status=%ff', 'status'],
    ['unknown=1', 'unknown'],
    ['__proto__=1', '__proto__'],
  ])('refuses the query %s on every list', async (query, param) => {
    for (const list of ['agents', 'transactions', 'policies'])
      await expectRefusal(['GET', `/api/v1/${list}?${query}`], [400, 'invalid_request', param]);
  });

  it('takes the last page number that there can be', async () => {
    const { status, body } = await account.call('GET', `/api/v1/agents?page_num=9007199254740991&page_size=100`);
    expect([status, body.data, body.has_more]).toEqual([200, [], false]);
  });

  it('refuses an unknown query parameter also where there is no list', async () => {
    await expectRefusal(['GET', `/api/v1/agents/${agentId}?x=1`], [400, 'invalid_request', 'x']);
    await expectRefusal(['POST', '/api/v1/agents?x=1', valid], [400, 'invalid_request', 'x']);
  });

  it.each([
    'agent_00000000000000000000000000',
    'agent_x',
    'tx_00000000000000000000000000',
    '%00',
    '..%2f..',
    'a'.repeat(4000),
    '%F0%9F%92%A9',
  ])('answers 404 for the id %s', async (id) => {
    for (const kind of ['agents', 'transactions', 'policies'])
      await expectRefusal(['GET', `/api/v1/${kind}/${id}`], [404, 'resource_not_found']);
  });

  it('answers 400 for a path that is not percent-encoded UTF-8', async () => {
    for (const id of ['%', '%zz', '%ff', '%c0%af'])
      await expectRefusal(['GET', `/api/v1/agents/${id}`], [400, 'invalid_request']);
  });

  it('answers 404 for what does not exist', async () => {
    for (const path of [
      '/',
      '/api',
      '/api/v1',
      '/api/v2/agents',
      '/api/v1/webhook',
      '/API/v1/agents',
      '/api/v1/Agents',
    ])
      await expectRefusal(['GET', path], [404, 'resource_not_found']);
  });

  it('answers 405 with Allow for a method that a path does not have', async () => {
    const cases = [
      ['DELETE', '/api/v1/agents', 'POST, GET, HEAD'],
      ['PUT', '/api/v1/approvals/apr_x', 'GET, HEAD'],
      ['PATCH', '/api/v1/policies/pol_x', 'GET, HEAD, PUT, DELETE'],
      ['OPTIONS', '/api/v1/transactions', 'POST, GET, HEAD'],
    ] as const;
    for (const [method, path, allow] of cases) {
      const answer = await account.call(method, path);
      expect([answer.status, answer.body.code, answer.headers.get('allow')]).toEqual([
        405,
        'method_not_allowed',
        allow,
      ]);
    }
  });

  it('never answers anything but 200 or 400 to a body of any JSON', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('agents', 'transactions', 'policies'), fc.json(), async (kind, body) => {
        expect([200, 400]).toContain((await account.call('POST', `/api/v1/${kind}`, body)).status);
      }),
      { numRuns: 100 },
    );
  });

  it('never answers anything but 200 or 400 to an agent with a name of any UTF-16', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), async (agent_name) => {
        const { status, body } = await account.call('POST', '/api/v1/agents', { ...valid, agent_name });
        expect([200, 400]).toContain(status);
        if (status === 200) expect(body.agent_name).toBe(agent_name.normalize('NFC'));
      }),
      { numRuns: 50 },
    );
  });
});
