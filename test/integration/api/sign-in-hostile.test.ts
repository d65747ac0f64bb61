import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { beginSignIn } from '../../../api/oidc/pending-sign-in.ts';
import { createProviderClient } from '../../../api/oidc/provider-client.ts';
import { redirectUriOf } from '../../../api/routes/sign-in.ts';
import { freePort } from '../../../dev/ports.ts';
import { startProvider } from '../../../dev/provider.ts';
import { makeProviderKeys } from '../../../dev/provider-keys.ts';
import { insertMember } from '../../../shared/db/members.ts';
import { createLogger } from '../../../shared/log.ts';
import { startTestApi } from './harness.ts';
import {
  type Answered,
  createVisitor,
  exchange,
  nobody,
  type SignInWorld,
  signIn,
  startSignInWorld,
  type Visitor,
} from './sign-in-calls.ts';

let world: SignInWorld;
let email: string;
let accountId: string;

beforeAll(async () => {
  world = await startSignInWorld();
  email = world.provider.add('ann@example.com');
  accountId = (await world.api.account()).id;
  await insertMember(world.api.pool, { accountId, email, role: 'owner' });
});
afterEach(() => {
  world.provider.lie = undefined;
  world.provider.tokenAnswer = undefined;
});
afterAll(() => world?.stop());

const asJson = { Accept: 'application/json' };
const visitor = () => createVisitor(world.api.url);
/** A browser that is about to come back. */
async function aboutToReturn(who = email): Promise<{ browser: Visitor; callback: URL }> {
  const browser = visitor();
  return { browser, callback: await browser.choose(await browser.begin(), who) };
}
const codes = async () =>
  (await world.api.pool.query('select count(*)::int as count from exchange_codes')).rows[0].count;

/** Refused in both languages of the callback, with no code made, and nothing told that should not be. */
function expectRefusal(answer: Answered, { status, code }: { status: number; code: string }): void {
  expect(answer.body).toEqual({
    code,
    type: expect.any(String),
    message: expect.any(String),
    request_id: expect.any(String),
    ...(answer.body.param && { param: answer.body.param }),
  });
  expect(answer.status).toBe(status);
  expect(answer.text).not.toMatch(/node_modules|\.ts:|at \w+ \(/);
  expect(answer.headers.get('cache-control')).toBe('no-store');
}

describe('a callback', () => {
  it('without the cookie of its sign-in is refused, as in the browser of somebody who was sent the link', async () => {
    const { callback } = await aboutToReturn();
    const before = await codes();
    const answer = await visitor().open(callback, asJson);
    expectRefusal(answer, { status: 400, code: 'invalid_request' });
    expect(answer.body.message).toContain('has not begun this sign-in');
    const page = await visitor().open(callback);
    expect(page.status).toBe(400);
    expect(page.text).toContain(`href="${world.api.url}/auth/oidc/redirect"`);
    expect(await codes()).toBe(before);
  });

  it.each([
    ['another one', 'A'.repeat(43)],
    ['the same with another end', undefined],
    ['none', null],
    ['one of another shape', '../../x'],
  ])('whose state is %s is refused', async (_, state) => {
    const { browser, callback } = await aboutToReturn();
    const own = callback.searchParams.get('state')!;
    if (state === null) callback.searchParams.delete('state');
    else callback.searchParams.set('state', state ?? own.slice(0, 12) + 'A'.repeat(31));
    expectRefusal(await browser.open(callback, asJson), { status: 400, code: 'invalid_request' });
  });

  it('with two states, of which the first is right, is refused', async () => {
    const { browser, callback } = await aboutToReturn();
    callback.searchParams.append('state', 'another');
    expectRefusal(await browser.open(callback, asJson), { status: 401, code: 'authentication_failed' });
  });

  it('after more than ten minutes is refused, also where the browser has kept its cookie', async () => {
    const { browser, callback } = await aboutToReturn();
    const [name, value] = browser.jar.of(world.api.url).split('=') as [string, string];
    const parts = value.split('.');
    parts[3] = String(Number(parts[3]) - 601);
    browser.jar.keep(world.api.url, [`${name}=${parts.join('.')}`]);
    const answer = await browser.open(callback, asJson);
    expectRefusal(answer, { status: 400, code: 'invalid_request' });
    expect(answer.body.message).toContain('more than 10 minutes');
  });

  it.each(['', 'x', 'a.b.c.d', `${'A'.repeat(43)}.`.repeat(3), '%00', '.'.repeat(3000)])(
    'with a cookie that is none of ours (%#) is refused',
    async (value) => {
      const { browser, callback } = await aboutToReturn();
      const [name] = browser.jar.of(world.api.url).split('=');
      browser.jar.keep(world.api.url, [`${name}=${value}`]);
      expectRefusal(await browser.open(callback, asJson), { status: 400, code: 'invalid_request' });
    },
  );

  it('is good once: its cookie is gone with it, and its code is used', async () => {
    const { browser, callback } = await aboutToReturn();
    const cookie = browser.jar.of(world.api.url);
    expect((await browser.open(callback, asJson)).status).toBe(200);
    expect(browser.jar.of(world.api.url)).toBe('');
    expectRefusal(await browser.open(callback, asJson), { status: 400, code: 'invalid_request' });
    browser.jar.keep(world.api.url, [cookie]);
    const replayed = await browser.open(callback, asJson);
    expectRefusal(replayed, { status: 401, code: 'authentication_failed' });
    expect(replayed.body.message).toContain('was used before');
  });

  it('with the code of somebody else’s sign-in is refused: PKCE ties a code to the browser that asked', async () => {
    const mallory = world.provider.add('mallory@example.com');
    const theirs = await aboutToReturn(mallory);
    const { browser, callback } = await aboutToReturn();
    callback.searchParams.set('code', theirs.callback.searchParams.get('code')!);
    expectRefusal(await browser.open(callback, asJson), { status: 401, code: 'authentication_failed' });
  });

  it('from another issuer is refused (mix-up)', async () => {
    const { browser, callback } = await aboutToReturn();
    callback.searchParams.set('iss', 'https://evil.example');
    expectRefusal(await browser.open(callback, asJson), { status: 401, code: 'authentication_failed' });
  });

  it('with neither a code nor an error, or with a query without end, is refused', async () => {
    const { browser, callback } = await aboutToReturn();
    callback.searchParams.delete('code');
    expectRefusal(await browser.open(callback, asJson), { status: 400, code: 'invalid_request' });
    callback.searchParams.set('code', 'x'.repeat(9_000));
    expectRefusal(await browser.open(callback, asJson), { status: 400, code: 'invalid_request' });
  });
});

describe('an ID token', () => {
  /** Then nobody asks the userinfo endpoint, which would tell the right subject. */
  const told = { email: 'ann@example.com', email_verified: true };
  it.each<[string, Record<string, unknown>]>([
    ['with the nonce of another sign-in', { nonce: 'A'.repeat(43) }],
    ['without a nonce', { nonce: undefined }],
    ['for another client', { aud: 'another-client' }],
    ['for two clients, issued to the other', { aud: ['purser-test', 'other'], azp: 'other' }],
    ['of another issuer', { iss: 'https://evil.example' }],
    ['that has expired', { exp: 1_700_000_000 }],
    ['without a subject', { sub: undefined }],
    ['whose subject holds a NUL', { sub: 'a\u0000b', ...told }],
    ['whose subject is too long', { sub: 'a'.repeat(256), ...told }],
  ])('%s is refused', async (_, changed) => {
    world.provider.lie = (claims) => ({ claims: { ...claims, ...changed } });
    const before = await codes();
    expectRefusal(await signIn(world, email), { status: 401, code: 'authentication_failed' });
    expect(await codes()).toBe(before);
  });

  it('that somebody else has signed is refused', async () => {
    const keys = await makeProviderKeys();
    world.provider.lie = () => ({ keys });
    expectRefusal(await signIn(world, email), { status: 401, code: 'authentication_failed' });
  });
});

describe('an error of the provider', () => {
  async function comeBackWith(query: Record<string, string>): Promise<{ json: Answered; page: Answered }> {
    const come = async (headers: Record<string, string>) => {
      const { browser, callback } = await aboutToReturn();
      callback.searchParams.delete('code');
      for (const [name, value] of Object.entries(query)) callback.searchParams.set(name, value);
      return browser.open(callback, headers);
    };
    return { json: await come(asJson), page: await come({ Accept: 'text/html' }) };
  }

  it('is told to whom it did not let in', async () => {
    const { json, page } = await comeBackWith({
      error: 'access_denied',
      error_description: 'Not assigned to the app.',
    });
    expectRefusal(json, { status: 403, code: 'insufficient_permissions' });
    expect(json.body.message).toContain('(access_denied). It says: Not assigned to the app.');
    expect(page.status).toBe(403);
    expect(page.text).toContain('Not assigned to the app.');
  });

  it('is text on the page, whatever stands in it', async () => {
    const { page } = await comeBackWith({
      error: '<script>1</script>',
      error_description: `<img src=x onerror=alert(1)>\u0000${'y'.repeat(5_000)}`,
    });
    expect(page.status).toBe(403);
    expect(page.text).not.toMatch(/<script>1|<img/);
    expect(page.text).toContain('&lt;img src=x onerror=alert(1)&gt;');
    expect(page.text.split('y'.repeat(300))).toHaveLength(1);
  });

  it.each(['server_error', 'temporarily_unavailable', 'invalid_scope', 'unauthorized_client'])(
    '%s is an outage, not the fault of whoever signs in',
    async (error) => {
      const { json } = await comeBackWith({ error });
      expectRefusal(json, { status: 503, code: 'service_unavailable' });
      expect(Number(json.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    },
  );

  it('is 403 for whoever turns back at the provider', async () => {
    const browser = visitor();
    const callback = await browser.choose(await browser.begin(), '');
    expectRefusal(await browser.open(callback, asJson), { status: 403, code: 'insufficient_permissions' });
  });

  it.each([
    ['a refusal of our secret', { status: 401, body: { error: 'invalid_client' } }],
    ['a fault of its own', { status: 500, body: 'oops' }],
    ['a page instead of JSON', { status: 200, body: '<html></html>' }],
  ])('at the token endpoint, such as %s, is 503', async (_, tokenAnswer) => {
    world.provider.tokenAnswer = tokenAnswer;
    const answer = await signIn(world, email);
    expectRefusal(answer, { status: 503, code: 'service_unavailable' });
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  });
});

describe('the log', () => {
  it('says that a sign-in failed and why, and holds no code, state, token or cookie of any', async () => {
    const lines: string[] = [];
    const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
    const logged = await startSignInWorld({ log });
    const secrets: string[] = [logged.provider.clientSecret];
    const come = async (prepare: (callback: URL) => void = () => {}) => {
      const browser = createVisitor(logged.api.url);
      const authorization = await browser.begin();
      const callback = await browser.choose(authorization, email);
      secrets.push(...['state', 'nonce'].map((name) => authorization.searchParams.get(name)!));
      secrets.push(callback.searchParams.get('code')!, browser.jar.of(logged.api.url).split('=')[1]!);
      prepare(callback);
      return browser.open(callback, asJson);
    };
    try {
      logged.provider.add(email);
      const account = await logged.api.account();
      await insertMember(logged.api.pool, { accountId: account.id, email, role: 'owner' });
      const { exchange_code: code } = (await come()).body;
      const { access_token, refresh_token } = (await exchange(logged.api.url, code)).body;
      secrets.push(code, access_token, refresh_token);
      expect((await exchange(logged.api.url, code)).status).toBe(401);
      await come((callback) => callback.searchParams.set('code', 'wrong'));
      logged.provider.lie = (claims) => {
        secrets.push(claims.at_hash as string);
        return { claims: { ...claims, nonce: 'another' } };
      };
      await come();
      logged.provider.lie = undefined;
      logged.provider.tokenAnswer = { status: 500, body: { access_token: 'said-by-mistake' } };
      await come();
      logged.provider.tokenAnswer = { status: 200, body: { access_token: 'said-by-mistake', id_token: 'a.b.c' } };
      await come();
    } finally {
      await logged.stop();
    }
    const text = lines.join('');
    expect(lines.filter((line) => line.includes('a sign-in failed at the identity provider'))).toHaveLength(4);
    for (const secret of [...secrets, 'said-by-mistake', 'id_token=', 'code=', 'state='])
      expect(text, secret).not.toContain(secret);
  });
});

describe('a provider that is down', () => {
  it('stops nobody who has a key, is said to be down, and works as soon as it is there', async () => {
    const [port, providerPort] = [await freePort(), await freePort()];
    const publicUrl = `http://127.0.0.1:${port}`;
    let nowMs = Date.now();
    const redirectUri = redirectUriOf({ publicUrl });
    const log = createLogger({ process: 'test', level: 'silent' });
    const provider = createProviderClient(
      {
        issuer: `http://127.0.0.1:${providerPort}`,
        clientId: 'purser-test',
        clientSecret: 'secret',
        scopes: 'openid',
        trustsEmail: false,
      },
      { redirectUri, log, now: () => nowMs },
    );
    const api = await startTestApi({
      temporalAddress: nobody,
      port,
      signIn: { provider, publicUrl, consoleUrl: undefined, signUp: 'first' },
    });
    try {
      const down = await createVisitor(api.url).open(`${api.url}/auth/oidc/redirect`, asJson);
      expectRefusal(down, { status: 503, code: 'service_unavailable' });
      expect(down.headers.get('retry-after')).toBe('5');
      expect((await createVisitor(api.url).open(`${api.url}/auth/oidc/redirect`)).text).toContain('cannot be reached');
      expect((await (await api.account()).call('GET', '/api/v1/agents')).status).toBe(200);

      const real = await startProvider({
        port: providerPort,
        keys: await makeProviderKeys(),
        users: () => [],
        clientId: 'purser-test',
        redirectUri,
      });
      try {
        // It is left alone for a moment, and then asked anew.
        expect((await createVisitor(api.url).open(`${api.url}/auth/oidc/redirect`, asJson)).status).toBe(503);
        nowMs += 5_000;
        expect((await createVisitor(api.url).begin()).port).toBe(String(providerPort));
      } finally {
        await real.stop();
      }
      // What it has told is kept.
      expect((await createVisitor(api.url).begin()).port).toBe(String(providerPort));
    } finally {
      await api.stop();
    }
  });

  it('and takes connections all the same is waited for, but not for ever', async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    try {
      const issuer = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
      const log = createLogger({ process: 'test', level: 'silent' });
      const options = { issuer, clientId: 'x', clientSecret: undefined, scopes: 'openid', trustsEmail: false };
      const client = createProviderClient(options, { redirectUri: `${world.api.url}/auth/oidc/callback`, log });
      const pending = beginSignIn({ accountId: undefined, now: new Date() });
      await expect(client.authorizationUrl(pending)).rejects.toMatchObject({ code: 'service_unavailable' });
    } finally {
      silent.close();
    }
  });

  it.each(['http://provider.example.com', 'http://10.0.0.1/realms/x'])(
    'at a plain %s is refused at once: whoever reads on the way could sign in',
    (issuer) => {
      const log = createLogger({ process: 'test', level: 'silent' });
      const options = { issuer, clientId: 'x', clientSecret: undefined, scopes: 'openid', trustsEmail: false };
      expect(() => createProviderClient(options, { redirectUri: 'https://x/auth/oidc/callback', log })).toThrow(
        'PURSER_OIDC_ISSUER must begin with https://',
      );
    },
  );
});
