import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createProviderClient } from '../../../api/oidc/provider-client.ts';
import { redirectUriOf } from '../../../api/routes/sign-in.ts';
import { insertMember } from '../../../shared/db/members.ts';
import type { Role } from '../../../shared/domain/access.ts';
import { createLogger } from '../../../shared/log.ts';
import { callWith, startTestApi } from './harness.ts';
import {
  createVisitor,
  exchange,
  nobody,
  type SignInWorld,
  signIn,
  startSignInWorld,
  tokensOf,
} from './sign-in-calls.ts';

let world: SignInWorld;
let names = 0;

beforeAll(async () => {
  world = await startSignInWorld();
});
afterEach(() => {
  world.provider.lie = undefined;
});
afterAll(() => world?.stop());

const newEmail = () => {
  names += 1;
  return `person${names}@example.com`;
};
const invite = async (accountId: string, email: string, role: Role = 'viewer') => {
  await insertMember(world.api.pool, { accountId, email, role });
};
const accountOf = async (tokens: { access_token: string }) =>
  (await world.api.tokens.verify(tokens.access_token)).accountId;
const noted = async (accountId: string) => {
  const { rows } = await world.api.pool.query(
    `select action, actor_type, actor_id, actor_name, resource_type, resource_id, result, ip_address, metadata
     from audit_inbox where account_id = $1 order by created_at, id`,
    [accountId],
  );
  return rows;
};

describe('the way to the provider', () => {
  it('asks for a code with state, nonce and PKCE by S256, each new every time', async () => {
    const [one, other] = await Promise.all([1, 2].map(() => createVisitor(world.api.url).begin()));
    expect(`${one!.origin}${one!.pathname}`).toBe(`${world.provider.issuer}/auth`);
    expect(Object.fromEntries(one!.searchParams)).toEqual({
      client_id: world.provider.clientId,
      response_type: 'code',
      scope: 'openid email profile',
      redirect_uri: `${world.api.url}/auth/oidc/callback`,
      code_challenge_method: 'S256',
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
    });
    for (const name of ['state', 'nonce', 'code_challenge'])
      expect(one!.searchParams.get(name)).not.toBe(other!.searchParams.get(name));
  });

  it('keeps what it needs later in a cookie that scripts and other sites do not get, and for ten minutes', async () => {
    const answer = await createVisitor(world.api.url).open(`${world.api.url}/auth/oidc/redirect`);
    expect(answer.status).toBe(302);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('referrer-policy')).toBe('no-referrer');
    const state = new URL(answer.headers.get('location')!).searchParams.get('state')!;
    const [cookie, ...more] = answer.headers.getSetCookie();
    expect(more).toEqual([]);
    const [value, ...attributes] = cookie!.split('; ');
    expect(value!.startsWith(`purser_sign_in_${state.slice(0, 12)}=${state}.`)).toBe(true);
    expect(attributes.filter((each) => !each.startsWith('Expires='))).toEqual([
      'Max-Age=600',
      'Path=/auth/oidc',
      'HttpOnly',
      'SameSite=Lax',
    ]);
  });

  it('keeps it for encrypted connections and below its own path alone, where it is reached by such', async () => {
    const publicUrl = 'https://example.com/purser';
    const log = createLogger({ process: 'test', level: 'silent' });
    const redirectUri = redirectUriOf({ publicUrl });
    const provider = createProviderClient(
      { ...world.provider, scopes: 'openid', trustsEmail: false },
      { redirectUri, log },
    );
    const signIn = { provider, publicUrl, consoleUrl: undefined, signUp: 'invited' as const };
    const api = await startTestApi({ temporalAddress: nobody, signIn });
    try {
      const answer = await createVisitor(api.url).open(`${api.url}/auth/oidc/redirect`);
      expect(new URL(answer.headers.get('location')!).searchParams.get('redirect_uri')).toBe(redirectUri);
      expect(answer.headers.getSetCookie()[0]).toMatch(
        /; Path=\/purser\/auth\/oidc; .*HttpOnly; Secure; SameSite=Lax$/,
      );
    } finally {
      await api.stop();
    }
  });

  it('takes nothing of the query but an account', async () => {
    const query = '?redirect_uri=https://evil.example&scope=admin&state=mine&login_hint=x';
    const url = await createVisitor(world.api.url).begin(query);
    expect(url.searchParams.get('redirect_uri')).toBe(`${world.api.url}/auth/oidc/callback`);
    expect(url.search).not.toMatch(/evil|admin|mine|login_hint/);
    const answer = await createVisitor(world.api.url).open(`${world.api.url}/auth/oidc/redirect?account=mine`, {
      Accept: 'application/json',
    });
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request', param: 'account' } });
  });

  it('forgets the sign-ins begun first before a browser has too many of them', async () => {
    const visitor = createVisitor(world.api.url);
    for (let tab = 0; tab < 12; tab += 1) await visitor.begin();
    const names = visitor.jar.of(world.api.url).split('; ');
    expect(names).toHaveLength(8);
  });

  it('is for GET alone: what only looks uses up no code', async () => {
    for (const path of ['redirect', 'callback'])
      for (const method of ['HEAD', 'POST']) {
        const response = await fetch(`${world.api.url}/auth/oidc/${path}`, { method, redirect: 'manual' });
        expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET']);
      }
  });
});

describe('a sign-in', () => {
  it('ends with a code, and the code with tokens that are good at once', async () => {
    const account = await world.api.account();
    const email = world.provider.add(newEmail(), { name: 'Ada' });
    await invite(account.id, email, 'admin');
    const answer = await signIn(world, email);
    expect(answer).toMatchObject({ status: 200, body: { expires_in: 60 } });
    expect(answer.body.exchange_code).toMatch(/^purser_code_[\w-]{43}$/);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('referrer-policy')).toBe('no-referrer');

    const exchanged = await exchange(world.api.url, answer.body.exchange_code);
    expect(exchanged.status).toBe(200);
    expect(exchanged.headers.get('cache-control')).toBe('no-store');
    expect(exchanged.body).toEqual({
      access_token: expect.any(String),
      token_type: 'Bearer',
      expires_in: 3600,
      refresh_token: expect.stringMatching(/^purser_refresh_/),
      refresh_expires_in: 2_592_000,
      user: { id: expect.stringMatching(/^user_/), email, name: 'Ada' },
    });
    const call = callWith(world.api.url, { authorization: `Bearer ${exchanged.body.access_token}` });
    expect((await call('GET', '/api/v1/agents')).status).toBe(200);

    const { sessionId } = await world.api.tokens.verify(exchanged.body.access_token);
    const actor = { actor_type: 'user', actor_id: exchanged.body.user.id, actor_name: email, ip_address: '127.0.0.1' };
    expect(await noted(account.id)).toEqual([
      expect.objectContaining({
        ...actor,
        action: 'member.joined',
        resource_type: 'member',
        metadata: { user_id: exchanged.body.user.id, email, role: 'admin' },
      }),
      expect.objectContaining({
        ...actor,
        action: 'user.signed_in',
        resource_type: 'session',
        resource_id: sessionId,
        result: 'success',
      }),
    ]);
  });

  it('keeps nothing from which the code could be read', async () => {
    const account = await world.api.account();
    const email = world.provider.add(newEmail());
    await invite(account.id, email);
    const { body } = await signIn(world, email);
    const { rows } = await world.api.pool.query<{ hash: Buffer }>(
      'select * from exchange_codes where account_id = $1',
      [account.id],
    );
    expect(rows[0]!.hash).toHaveLength(32);
    expect(JSON.stringify(rows)).not.toContain(body.exchange_code.slice(-20));
  });

  it('works in two tabs at once, whichever ends first', async () => {
    const account = await world.api.account();
    const email = world.provider.add(newEmail());
    await invite(account.id, email);
    const visitor = createVisitor(world.api.url);
    const first = await visitor.begin();
    const second = await visitor.begin();
    for (const tab of [second, first]) {
      const callback = await visitor.choose(tab, email);
      expect((await visitor.open(callback, { Accept: 'application/json' })).status).toBe(200);
    }
    expect(visitor.jar.of(world.api.url)).toBe('');
  });

  it('is the same person’s whatever their address is now, and brings their new name', async () => {
    const account = await world.api.account();
    const before = world.provider.add(newEmail(), { sub: 'moved', name: 'Before' });
    await invite(account.id, before);
    const first = await tokensOf(world, before);
    world.provider.users.splice(
      world.provider.users.findIndex(({ sub }) => sub === 'moved'),
      1,
    );
    const after = world.provider.add(newEmail(), { sub: 'moved', name: 'After' });
    const second = await tokensOf(world, after);
    expect(second.user).toEqual({ id: first.user.id, email: after, name: 'After' });
    expect(await accountOf(second)).toBe(account.id);
  });

  it('shows the code on a page of ours where there is no console, with the line that exchanges it', async () => {
    const account = await world.api.account();
    const email = world.provider.add(newEmail());
    await invite(account.id, email);
    const visitor = createVisitor(world.api.url);
    const page = await visitor.open(await visitor.choose(await visitor.begin(), email), { Accept: 'text/html' });
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toMatch(/^text\/html/);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const [code] = /purser_code_[\w-]{43}/.exec(page.text) ?? [];
    expect(page.text).toContain(`curl -s ${world.api.url}/api/v1/auth/exchange `);
    expect((await exchange(world.api.url, code!)).status).toBe(200);
  });
});

describe('a console', () => {
  it('is led back to with the code, and told nothing else', async () => {
    const other = await startSignInWorld({ consoleUrl: 'https://console.example.com/welcome?from=purser' });
    try {
      const account = await other.api.account();
      const email = other.provider.add('console@example.com');
      await insertMember(other.api.pool, { accountId: account.id, email, role: 'owner' });
      const visitor = createVisitor(other.api.url);
      const answer = await visitor.open(await visitor.choose(await visitor.begin(), email));
      expect(answer.status).toBe(302);
      expect(answer.headers.get('referrer-policy')).toBe('no-referrer');
      const url = new URL(answer.headers.get('location')!);
      expect(`${url.origin}${url.pathname}`).toBe('https://console.example.com/welcome');
      expect([...url.searchParams.keys()]).toEqual(['from', 'exchange_code']);
      expect((await exchange(other.api.url, url.searchParams.get('exchange_code')!)).status).toBe(200);
    } finally {
      await other.stop();
    }
  });
});

describe('who belongs to several accounts', () => {
  it('signs in for the one that they name, else for the last one, else for the oldest', async () => {
    const [first, second, third] = [await world.api.account(), await world.api.account(), await world.api.account()];
    const email = world.provider.add(newEmail());
    await invite(first.id, email);
    expect(await accountOf(await tokensOf(world, email))).toBe(first.id);
    await invite(second.id, email);
    // Invited since: the newest invitation is what they come for.
    expect(await accountOf(await tokensOf(world, email))).toBe(second.id);
    expect(await accountOf(await tokensOf(world, email, `?account=${first.id}`))).toBe(first.id);
    expect(await accountOf(await tokensOf(world, email))).toBe(first.id);
    await world.api.pool.query('delete from auth_sessions where account_id = any($1)', [[first.id, second.id]]);
    expect(await accountOf(await tokensOf(world, email))).toBe(first.id);
    const refused = await signIn(world, email, `?account=${third.id}`);
    expect(refused).toMatchObject({ status: 403, body: { code: 'insufficient_permissions' } });
    expect(refused.body.message).toContain(third.id);
  });

  it('joins every account that has invited them, by one sign-in', async () => {
    const [first, second] = [await world.api.account(), await world.api.account()];
    const email = world.provider.add(newEmail());
    await invite(first.id, email.toUpperCase());
    await invite(second.id, email);
    expect(await accountOf(await tokensOf(world, email))).toBe(second.id);
    expect(await accountOf(await tokensOf(world, email, `?account=${first.id}`))).toBe(first.id);
  });
});

describe('without an identity provider', () => {
  it('says which settings are missing, and starts all the same', async () => {
    const api = await startTestApi({ temporalAddress: nobody });
    try {
      for (const path of ['redirect', 'callback?code=x&state=y']) {
        const visitor = createVisitor(api.url);
        const json = await visitor.open(`${api.url}/auth/oidc/${path}`, { Accept: 'application/json' });
        expect(json).toMatchObject({ status: 404, body: { code: 'resource_not_found' } });
        expect(json.body.message).toMatch(/PURSER_OIDC_ISSUER, PURSER_OIDC_CLIENT_ID/);
        expect((await visitor.open(`${api.url}/auth/oidc/${path}`)).text).toContain('PURSER_OIDC_ISSUER');
      }
    } finally {
      await api.stop();
    }
  });
});
