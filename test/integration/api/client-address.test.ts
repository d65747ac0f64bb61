import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';

/** Who is connected to the api in these tests. */
const peer = '127.0.0.1';
const trustingPeer = ['127.0.0.0/8', '10.0.0.0/8', '2001:db8:1::/48'];

/** What the audit log holds of where a request came from. Header names may repeat, as they may on the wire. */
async function seenAddress(api: TestApi, account: TestAccount, forwarded: readonly string[]): Promise<string> {
  const requestId = randomUUID();
  const headers = [
    'Host',
    'x',
    'X-API-Key',
    account.key,
    'X-Request-Id',
    requestId,
    'Content-Type',
    'application/json',
  ];
  for (const value of forwarded) headers.push('X-Forwarded-For', value);
  const sent = request(`${api.url}/api/v1/agents`, { method: 'POST', headers });
  sent.end(JSON.stringify({ agent_name: requestId, chain: 'eip155:31337' }));
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  const body = await text(answer);
  if (answer.statusCode !== 200) throw new Error(body);
  const { rows } = await api.pool.query<{ ip_address: string }>(
    'select ip_address from audit_inbox where request_id = $1',
    [requestId],
  );
  expect(rows).toHaveLength(1);
  return rows[0]!.ip_address;
}

describe('the address of a client behind configured proxies', () => {
  let api: TestApi;
  let account: TestAccount;
  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1', trustedProxies: trustingPeer });
    account = await api.account();
  });
  afterAll(() => api?.stop());

  it.each<[string, string[], string]>([
    ['is the peer without the header', [], peer],
    ['is the peer when the header is empty', [''], peer],
    ['is what the proxy wrote', ['203.0.113.9'], '203.0.113.9'],
    ['is what the proxy wrote, behind what the client made up', ['192.0.2.1, 203.0.113.9'], '203.0.113.9'],
    ['is not what a client made up to look like a proxy', ['10.0.0.1, 203.0.113.9'], '203.0.113.9'],
    ['is found behind several proxies', ['1.1.1.1, 203.0.113.9, 10.1.1.1, 10.2.2.2'], '203.0.113.9'],
    ['is the last one where all are proxies', ['10.3.3.3, 10.1.1.1'], '10.3.3.3'],
    ['is read over several headers in their order', ['192.0.2.1', '203.0.113.9', '10.1.1.1'], '203.0.113.9'],
    ['is not read past garbage that a client sent', ['203.0.113.9, garbage, 203.0.113.8'], '203.0.113.8'],
    ['is IPv6 as RFC 5952 writes it', ['2001:DB8:0:0::00A1'], '2001:db8::a1'],
    ['is found behind a proxy of IPv6', ['203.0.113.9, 2001:db8:1::7'], '203.0.113.9'],
    ['is IPv4 where it comes mapped into IPv6', ['::ffff:203.0.113.9'], '203.0.113.9'],
    ['is found behind a proxy that comes mapped', ['203.0.113.9, ::ffff:10.1.1.1'], '203.0.113.9'],
    ['has no zone', ['fe80::1%eth0'], 'fe80::1'],
    ['is never a word', ['unknown'], peer],
    ['is never an obfuscated name', ['_hidden'], peer],
    ['is never an address with a port', ['203.0.113.9:4711'], peer],
    ['is never IPv6 with a port', ['[2001:db8::1]:4711'], peer],
    ['is never a short form of IPv4', ['203.113'], peer],
    ['is never an octal form of IPv4', ['0313.0.113.9'], peer],
    ['is never a hexadecimal form of IPv4', ['0xcb007109'], peer],
    ['is never a network', ['203.0.113.0/24'], peer],
    ['is never a name', ['localhost'], peer],
    ['is never code', [`' or 1=1 --`], peer],
    ['is never what follows garbage of a proxy', ['203.0.113.9, unknown'], peer],
    ['is found in a very long chain', [`${'192.0.2.1, '.repeat(500)}203.0.113.9`], '203.0.113.9'],
  ])('%s', async (_what, forwarded, expected) => {
    expect(await seenAddress(api, account, forwarded)).toBe(expected);
  });

  it('is believed of no other header', async () => {
    const requestId = randomUUID();
    await account.call(
      'POST',
      '/api/v1/agents',
      { agent_name: requestId, chain: 'eip155:31337' },
      {
        ...{ 'x-request-id': requestId, forwarded: 'for=203.0.113.9', 'x-real-ip': '203.0.113.9' },
        ...{ 'x-client-ip': '203.0.113.9', 'true-client-ip': '203.0.113.9', 'cf-connecting-ip': '203.0.113.9' },
      },
    );
    const { rows } = await api.pool.query('select ip_address from audit_inbox where request_id = $1', [requestId]);
    expect(rows).toEqual([{ ip_address: peer }]);
  });
});

describe.each([
  ['without proxies', []],
  ['with other proxies', ['10.0.0.0/8', '127.0.0.2', '::1']],
])('the address of a client that connects by itself, %s', (_what, trustedProxies) => {
  it('is that of its connection, whatever it says', async () => {
    const api = await startTestApi({ temporalAddress: '127.0.0.1:1', trustedProxies });
    try {
      const account = await api.account();
      for (const forwarded of [['203.0.113.9'], ['203.0.113.9, 10.0.0.1'], ['10.0.0.1', '127.0.0.1'], ['garbage']])
        expect(await seenAddress(api, account, forwarded)).toBe(peer);
    } finally {
      await api.stop();
    }
  });
});
