import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { SignUp } from '../../../api/operations/complete-sign-in.ts';
import { redirectUriOf } from '../../../api/routes/sign-in.ts';
import { freePort } from '../../../dev/ports.ts';
import { insertMember } from '../../../shared/db/members.ts';
import { createPool } from '../../../shared/db/pool.ts';
import { createTestDatabase } from '../../support/database.ts';
import { startTestProvider } from '../../support/provider.ts';
import { testTokenKeys } from '../../support/token-keys.ts';
import { type ApiProcess, startApiProcess } from './api-process.ts';
import {
  createVisitor,
  exchange,
  nobody,
  type SignInWorld,
  signIn,
  startSignInWorld,
  tokensOf,
} from './sign-in-calls.ts';

let stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.toReversed()) await stop();
  stops = [];
});
const start = async (options: Parameters<typeof startSignInWorld>[0] = {}): Promise<SignInWorld> => {
  const world = await startSignInWorld(options);
  stops.push(world.stop);
  return world;
};
const countOf = async ({ api }: SignInWorld, table: 'accounts' | 'users' | 'members' | 'exchange_codes') =>
  (await api.pool.query(`select count(*)::int as count from ${table}`)).rows[0].count;
const refusal = { status: 403, body: { code: 'insufficient_permissions' } };

describe('the first sign-in of an installation', () => {
  it('opens an account and owns it; the next person is not let in until they are invited', async () => {
    const world = await start({ signUp: 'first' });
    const ann = world.provider.add('Ann@Example.com', { name: 'Ann' });
    const ben = world.provider.add('ben@example.com');
    const { access_token: token, user } = await tokensOf(world, ann);
    expect(user).toMatchObject({ email: 'ann@example.com', name: 'Ann' });
    const { accountId } = await world.api.tokens.verify(token);
    const { rows } = await world.api.pool.query(
      'select a.plan, a.owner_email, m.role, m.email, m.user_id from accounts a join members m on m.account_id = a.id',
    );
    expect(rows).toEqual([
      { plan: 'starter', owner_email: 'ann@example.com', role: 'owner', email: 'ann@example.com', user_id: user.id },
    ]);
    const { rows: entries } = await world.api.pool.query<{ action: string; changes: unknown }>(
      'select action from audit_inbox where account_id = $1 order by created_at, id',
      [accountId],
    );
    expect(entries.map(({ action }) => action)).toEqual(['account.created', 'member.joined', 'user.signed_in']);

    const before = await countOf(world, 'users');
    const refused = await signIn(world, ben);
    expect(refused).toMatchObject(refusal);
    expect(refused.body.message).toContain('ben@example.com belongs to no account here. Ask somebody');
    expect(await countOf(world, 'users')).toBe(before);
    await insertMember(world.api.pool, { accountId, email: ben, role: 'viewer' });
    expect((await signIn(world, ben)).status).toBe(200);
    expect(await countOf(world, 'accounts')).toBe(1);
    expect((await tokensOf(world, ann)).user.id).toBe(user.id);
  });

  it('is none where somebody is invited already', async () => {
    const world = await start({ signUp: 'first' });
    await insertMember(world.api.pool, { accountId: (await world.api.account()).id, email: 'x@y.z', role: 'owner' });
    expect(await signIn(world, world.provider.add('eve@example.com'))).toMatchObject(refusal);
    expect(await countOf(world, 'users')).toBe(0);
  });

  it('makes one account out of many that come at once, in one process', async () => {
    const world = await start({ signUp: 'first' });
    const emails = Array.from({ length: 8 }, (_, index) => world.provider.add(`first${index}@example.com`));
    const callbacks = [];
    for (const email of emails) {
      const browser = createVisitor(world.api.url);
      callbacks.push({ browser, callback: await browser.choose(await browser.begin(), email) });
    }
    const answers = await Promise.all(
      callbacks.map(({ browser, callback }) => browser.open(callback, { Accept: 'application/json' })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array(7).fill(403)]);
    expect([await countOf(world, 'accounts'), await countOf(world, 'members')]).toEqual([1, 1]);
  });
});

describe('sign-up', () => {
  it.each<[SignUp, number]>([
    ['anyone', 200],
    ['invited', 403],
  ])('for %s answers %i to somebody who belongs to no account', async (signUp, status) => {
    const world = await start({ signUp });
    const [ann, ben] = [world.provider.add('ann@example.com'), world.provider.add('ben@example.com')];
    expect([(await signIn(world, ann)).status, (await signIn(world, ben)).status]).toEqual([status, status]);
    expect((await signIn(world, ann)).status).toBe(status);
    const count = status === 200 ? 2 : 0;
    expect([await countOf(world, 'accounts'), await countOf(world, 'members')]).toEqual([count, count]);
  });

  it('of one person in two tabs at once opens one account', async () => {
    const world = await start({ signUp: 'anyone' });
    const email = world.provider.add('ann@example.com');
    const tabs = [];
    for (let tab = 0; tab < 4; tab += 1) {
      const browser = createVisitor(world.api.url);
      tabs.push({ browser, callback: await browser.choose(await browser.begin(), email) });
    }
    const answers = await Promise.all(
      tabs.map(({ browser, callback }) => browser.open(callback, { Accept: 'application/json' })),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect([await countOf(world, 'accounts'), await countOf(world, 'users')]).toEqual([1, 1]);
  });
});

describe('two api processes', () => {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let provider: Awaited<ReturnType<typeof startTestProvider>>;
  let apis: ApiProcess[];
  let publicPort: number;

  beforeAll(async () => {
    publicPort = await freePort();
    const publicUrl = `http://127.0.0.1:${publicPort}`;
    database = await createTestDatabase();
    provider = await startTestProvider({ redirectUri: redirectUriOf({ publicUrl }) });
    const env = {
      PURSER_TOKEN_KEYS_FILE: (await testTokenKeys()).keysFile,
      PURSER_PUBLIC_URL: publicUrl,
      PURSER_OIDC_ISSUER: provider.issuer,
      PURSER_OIDC_CLIENT_ID: provider.clientId,
      PURSER_OIDC_CLIENT_SECRET: provider.clientSecret,
    };
    apis = await Promise.all(
      [1, 2].map(() => startApiProcess({ databaseUrl: database.url, temporalAddress: nobody, env })),
    );
  });
  afterAll(async () => {
    await Promise.all((apis ?? []).map((api) => api.kill()));
    await provider?.stop();
    await database?.drop();
  });

  /** As a balancer would do it: to one of the processes, whichever name the browser has used. */
  const at = (api: ApiProcess, callback: URL) => new URL(callback.pathname + callback.search, api.url);

  it('open one account for the first two people who come at once, and exchange a code of the other', async () => {
    const pool = createPool({ url: database.url, max: 2, application: 'test' });
    try {
      const coming = [];
      for (const [index, api] of apis.entries()) {
        const browser = createVisitor(api.url);
        const email = provider.add(`first${index}@example.com`);
        coming.push({ api, browser, callback: await browser.choose(await browser.begin(), email) });
      }
      const answers = await Promise.all(
        coming.map(({ api, browser, callback }) => browser.open(at(api, callback), { Accept: 'application/json' })),
      );
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 403]);
      const { rows } = await pool.query('select (select count(*) from accounts)::int as accounts');
      expect(rows).toEqual([{ accounts: 1 }]);

      const { exchange_code: code } = answers.find(({ status }) => status === 200)!.body;
      const exchanged = await Promise.all(apis.map(({ url }) => exchange(url, code)));
      expect(exchanged.map(({ status }) => status).toSorted()).toEqual([200, 401]);
      const { rows: sessions } = await pool.query('select revoked_reason from auth_sessions');
      expect(sessions).toEqual([{ revoked_reason: 'code_reused' }]);
    } finally {
      await pool.end();
    }
  });
});
