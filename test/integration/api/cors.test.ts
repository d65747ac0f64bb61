import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApi, type TestAccount, type TestApi } from './harness.ts';

const ownConsole = 'https://console.example.com';
const local = 'http://localhost:3000';
const path = '/api/v1/agents';

const preflight = (api: TestApi, origin: string, { method = 'POST', url = path } = {}) =>
  fetch(api.url + url, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': method,
      'access-control-request-headers': 'authorization,content-type,idempotency-key',
    },
  });
const corsHeaders = ({ headers }: Response) => [...headers.keys()].filter((name) => name.startsWith('access-control-'));

describe('pages of origins that are named', () => {
  let api: TestApi;
  let account: TestAccount;
  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1', corsOrigins: [ownConsole, local] });
    account = await api.account();
  });
  afterAll(() => api?.stop());

  it('are told before they send a credential what they may send', async () => {
    for (const [origin, method] of [
      [ownConsole, 'POST'],
      [local, 'DELETE'],
      [ownConsole, 'PUT'],
    ] as const) {
      const answer = await preflight(api, origin, { method });
      expect(answer.status).toBe(204);
      expect(await answer.text()).toBe('');
      expect(answer.headers.get('access-control-allow-origin')).toBe(origin);
      expect(answer.headers.get('access-control-allow-methods')).toBe('GET,HEAD,POST,PUT,DELETE');
      expect(answer.headers.get('access-control-allow-headers')).toBe(
        'Authorization,X-API-Key,Content-Type,Idempotency-Key,X-Idempotency-Key,X-Request-Id',
      );
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
      expect(answer.headers.get('vary')).toContain('Origin');
      expect(answer.headers.get('x-request-id')).not.toBeNull();
    }
  });

  it('may read answers and refusals, and the headers that tell them something', async () => {
    const person = await account.person('ann@example.com');
    for (const answer of [
      await person.call('GET', path, undefined, { origin: ownConsole }),
      await account.call('GET', `${path}/nothing`, undefined, { origin: ownConsole }),
      await fetch(api.url + path, { headers: { origin: ownConsole } }),
      await fetch(`${api.url}/api/v1/auth/refresh`, { method: 'POST', headers: { origin: ownConsole } }),
      await fetch(`${api.url}/.well-known/jwks.json`, { headers: { origin: ownConsole } }),
    ]) {
      const { headers } = answer;
      expect(headers.get('access-control-allow-origin')).toBe(ownConsole);
      expect(headers.get('access-control-allow-credentials')).toBeNull();
      expect(headers.get('vary')).toContain('Origin');
      const exposed = headers.get('access-control-expose-headers')!.split(',');
      for (const name of [
        'X-Request-Id',
        'Retry-After',
        'Idempotent-Replayed',
        'RateLimit-Limit',
        'RateLimit-Remaining',
        'RateLimit-Reset',
      ])
        expect(exposed).toContain(name);
    }
  });

  it.each([
    ['another site', 'https://evil.example'],
    ['a part of the name', 'https://console.example.co'],
    ['the name with more behind it', 'https://console.example.com.evil.example'],
    ['the name with more before it', 'https://evil-console.example.com'],
    ['a subdomain', 'https://a.console.example.com'],
    ['another port', 'https://console.example.com:8443'],
    ['the same without TLS', 'http://console.example.com'],
    ['other letters', 'https://CONSOLE.example.com'],
    ['a file or a sandboxed frame', 'null'],
    ['two origins', `${ownConsole}, ${local}`],
    ['nothing', ''],
    ['everything', '*'],
  ])('are not %s', async (_what, origin) => {
    const asked = await preflight(api, origin);
    expect(asked.status).toBe(401);
    expect(corsHeaders(asked)).toEqual([]);
    const answer = await account.call('GET', path, undefined, { origin });
    expect(answer.status).toBe(200);
    expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
    // A cache must know that the answer would be another one for other origins.
    expect(answer.headers.get('vary')).toContain('Origin');
  });

  it('get nothing but the api: no page, no state of the process', async () => {
    for (const url of [
      '/healthz',
      '/readyz',
      '/docs',
      '/openapi.json',
      '/approve/x',
      '/auth/oidc/redirect',
      '/nothing',
    ]) {
      const answer = await fetch(api.url + url, { headers: { origin: ownConsole }, redirect: 'manual' });
      expect(corsHeaders(answer)).toEqual([]);
      expect((await preflight(api, ownConsole, { url })).headers.get('access-control-allow-origin')).toBeNull();
    }
  });

  it('do not turn a plain OPTIONS into a yes', async () => {
    const answer = await account.call('OPTIONS', path, undefined, { origin: ownConsole });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST, GET, HEAD']);
  });
});

describe('pages of other origins, when none is named', () => {
  it('get nothing', async () => {
    const api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    try {
      const account = await api.account();
      const asked = await preflight(api, ownConsole);
      expect([asked.status, corsHeaders(asked)]).toEqual([401, []]);
      const answer = await account.call('GET', path, undefined, { origin: ownConsole });
      expect(answer.status).toBe(200);
      expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
    } finally {
      await api.stop();
    }
  });
});

describe('headers of answers', () => {
  it('let a browser do nothing with them but read, and say nothing about what made them', async () => {
    const api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    try {
      const account = await api.account();
      const urls = [
        path,
        '/api/v1/nothing',
        '/healthz',
        '/readyz',
        '/docs',
        '/openapi.json',
        '/approve/x',
        '/nothing',
        '/auth/oidc/redirect',
        '/auth/oidc/callback',
        '/.well-known/jwks.json',
      ];
      for (const url of urls) {
        const { headers } = await fetch(api.url + url, { headers: { 'x-api-key': account.key }, redirect: 'manual' });
        const policy = headers.get('content-security-policy')!;
        expect(policy, url).toContain("default-src 'none'");
        expect(policy, url).toContain("frame-ancestors 'none'");
        expect(policy, url).not.toMatch(/unsafe-(eval|inline)|\*/);
        expect(headers.get('x-content-type-options'), url).toBe('nosniff');
        expect(headers.get('x-frame-options'), url).toMatch(/^(DENY|SAMEORIGIN)$/);
        expect(headers.get('referrer-policy'), url).toBe('no-referrer');
        expect(headers.get('strict-transport-security'), url).toMatch(/^max-age=\d{7,}/);
        expect(headers.get('cross-origin-opener-policy'), url).toBe('same-origin');
        expect(headers.get('cross-origin-resource-policy'), url).toBe('same-origin');
        for (const name of ['x-powered-by', 'server', 'via', 'x-runtime']) expect(headers.get(name), url).toBeNull();
      }
    } finally {
      await api.stop();
    }
  });
});
