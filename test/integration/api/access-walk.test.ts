import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Access, access } from '../../../api/access.ts';
import { makeApiKey } from '../../../shared/api-key.ts';
import { updateAccount } from '../../../shared/db/accounts.ts';
import { revokeAuthSession } from '../../../shared/db/auth-sessions.ts';
import { completeX402Payment, stampX402Payment } from '../../../shared/db/x402-payments.ts';
import { type Role, roles, type Scope, scopes } from '../../../shared/domain/access.ts';
import { newId } from '../../../shared/ids.ts';
import { accessTableIn, renderAccessTable } from '../../support/access-table.ts';
import { type Operation, operationsOf, pathWith } from '../../support/operations.ts';
import { emailOf, limitedKey, makeAgentWithThings, makeThingsOfAccount, type Things } from './access-world.ts';
import { callWith, startTestApi, type TestAccount, type TestApi } from './harness.ts';

/** What is known of whoever asks. */
type Who =
  /** Nobody in particular: the credentials are refused. */
  | 'nobody'
  | { readonly role: Role; readonly of?: 'this' | 'another' }
  | {
      /** Null: all. */
      readonly scopes: readonly Scope[] | null;
      readonly of?: 'this' | 'another';
      readonly agent?: 'own' | 'another';
      /** Whether its account leaves policies to people. */
      readonly policiesByPeople?: boolean;
    };
type Credentials = Record<string, string>;

/** Asked for everywhere and taken nowhere: whoever may, and names what is there, is told so. Thus nothing is ever done. */
const wrongInput = '?no_such_parameter=1';
const allowed = [400, 'invalid_request'] as const;
const refusals = {
  401: [401, 'authentication_failed'],
  403: [403, 'insufficient_permissions'],
  404: [404, 'resource_not_found'],
} as const;

/** What the table says, read anew: order of refusals 401, 403, 404, 400. */
function expected(operation: Operation, who: Who, { exists = true }: { exists?: boolean } = {}) {
  const row = (access as Readonly<Record<string, Access>>)[operation.id]!;
  if (row.by === 'anybody') return allowed;
  if (who === 'nobody') return refusals[401];
  if (!may(row, who)) return refusals[403];
  const isSeen = exists && who.of !== 'another' && !('agent' in who && who.agent === 'another');
  return operation.path.includes('{') && !isSeen ? refusals[404] : allowed;
}

function may(row: Extract<Access, { by: 'caller' }>, who: Exclude<Who, 'nobody'>): boolean {
  if ('role' in who) return roles.indexOf(who.role) >= roles.indexOf(row.role);
  if (row.scope === null) return false;
  if (who.agent && !row.agentKeys) return false;
  if (who.policiesByPeople && row.scope === 'policies:write') return false;
  const enough: readonly string[] = [row.scope, row.scope.replace(':read', ':write')];
  return who.scopes === null || who.scopes.some((scope) => enough.includes(scope));
}

describe('who may what', () => {
  let api: TestApi;
  let account: TestAccount;
  let another: TestAccount;
  let operations: Operation[];
  /** The account's, and those of an agent of it. */
  let things: Things & { agents: string };
  let anotherAgent: string;

  beforeAll(async () => {
    api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
    [account, another] = [await api.account(), await api.account()];
    operations = await operationsOf(api);
    things = { ...(await makeThingsOfAccount(api, account)), ...(await makeAgentWithThings(api, account)) };
    anotherAgent = (await makeAgentWithThings(api, account)).agents;
  });
  afterAll(() => api?.stop());

  const byKey = (key: string): Credentials => ({ 'x-api-key': key });
  const byToken = (token: string): Credentials => ({ authorization: `Bearer ${token}` });
  const keyOf = async (limits: Partial<Parameters<typeof limitedKey>[1]> = {}) =>
    (await limitedKey(api, { accountId: account.id, ...limits })).key;
  const personOf = (role: Role, of = account) => of.person(emailOf(role), { role });
  const tokenOf = async (role: Role, of = account) => (await personOf(role, of)).token;
  const deletedKey = async () => {
    const { id, key } = await limitedKey(api, { accountId: account.id });
    await api.pool.query('delete from api_keys where id = $1', [id]);
    return key;
  };
  const signedOut = async () => {
    const { token, sessionId } = await personOf('owner');
    await revokeAuthSession(api.pool, { id: sessionId, reason: 'signed_out' });
    return token;
  };
  const removedMember = async () => {
    const { token, userId } = await account.person('gone@example.com');
    await api.pool.query('delete from members where user_id = $1', [userId]);
    return token;
  };
  const minuteAgo = () => new Date(Date.now() - 60_000);
  const altered = (text: string) => text.slice(0, -2) + (text.endsWith('AA') ? 'BB' : 'AA');

  /** Asks for every operation. @returns what was answered, and what should have been, by operation */
  async function walk(
    credentials: Credentials,
    who: Who,
    { ids = things, exists = true }: { ids?: Things; exists?: boolean } = {},
  ) {
    const call = callWith(api.url, credentials);
    const answers = operations.map(async (operation) => {
      const body = operation.method === 'GET' ? undefined : {};
      const answer = await call(operation.method, pathWith(operation, ids) + wrongInput, body);
      return [operation.id, [answer.status, answer.body?.code]] as const;
    });
    const should = operations.map((operation) => [operation.id, expected(operation, who, { exists })]);
    return { was: Object.fromEntries(await Promise.all(answers)), should: Object.fromEntries(should) };
  }

  async function expectWalk(credentials: Credentials, who: Who, options: Parameters<typeof walk>[2] = {}) {
    const { was, should } = await walk(credentials, who, options);
    expect(was).toEqual(should);
  }

  it('is told for every operation, and for nothing else', () => {
    expect(operations.map(({ id }) => id).toSorted()).toEqual(Object.keys(access).toSorted());
  });

  it('stands in the README', () => {
    const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
    expect(accessTableIn(readme)).toBe(renderAccessTable(operations));
  });

  it.each<[string, () => Promise<Credentials> | Credentials]>([
    ['nothing', () => ({})],
    ['an empty key', () => byKey('')],
    ['what is no key', () => byKey('x')],
    ['a key with a mistyped end', () => byKey(altered(account.key))],
    ['a key that nobody has', () => byKey(makeApiKey({ environment: 'sandbox' }).key)],
    ['a key of production, even if it is known here', async () => byKey(await keyOf({ environment: 'production' }))],
    ['two keys', async () => byKey(`${account.key}, ${await keyOf()}`)],
    ['a deleted key', async () => byKey(await deletedKey())],
    ['a key that has expired', async () => byKey(await keyOf({ expiresAt: minuteAgo() }))],
    ['a key as a token', () => byToken(account.key)],
    ['what is no token', () => byToken('x')],
    ['a token that was altered', async () => byToken(altered(await tokenOf('owner')))],
    [
      'a token that has expired',
      async () => byToken((await account.person(emailOf('owner'), { lifetimeSeconds: -1 })).token),
    ],
    ['a token that was signed out', async () => byToken(await signedOut())],
    ['a token of somebody who was removed', async () => byToken(await removedMember())],
    ['a token as a key', async () => byKey(await tokenOf('owner'))],
    ['a token without its scheme', async () => ({ authorization: await tokenOf('owner') })],
    ['a password', () => ({ authorization: 'Basic b3duZXI6b3duZXI=' })],
    ['a good key and a bad token', () => ({ ...byKey(account.key), ...byToken('x') })],
    ['a good token and a bad key', async () => ({ ...byKey('x'), ...byToken(await tokenOf('owner')) })],
    [
      'a key and a token of different accounts',
      async () => ({ ...byKey(another.key), ...byToken(await tokenOf('owner')) }),
    ],
  ])('is nothing but what is open to all, with %s', async (_what, credentials) => {
    await expectWalk(await credentials(), 'nobody');
  });

  it.each(scopes)('is what the scope %s allows, with a key of it alone', async (scope) => {
    await expectWalk(byKey(await keyOf({ scopes: [scope] })), { scopes: [scope] });
  });

  it.each(scopes)('is everything else, with a key of every scope but %s', async (scope) => {
    const rest = scopes.filter((each) => each !== scope);
    await expectWalk(byKey(await keyOf({ scopes: rest })), { scopes: rest });
  });

  it('is all that keys may, with a key without limits and with one of every scope', async () => {
    await expectWalk(byKey(account.key), { scopes: null });
    await expectWalk(byKey(await keyOf({ scopes })), { scopes: null });
  });

  it.each(roles)('is what the role %s allows, for people, whatever key they send besides', async (role) => {
    const token = byToken(await tokenOf(role));
    await expectWalk(token, { role });
    for (const key of [account.key, await keyOf({ scopes: ['audit:read'], agentId: things.agents })])
      await expectWalk({ ...byKey(key), ...token }, { role });
  });

  it("is an agent's own business, with a key of that agent", async () => {
    const agentId = things.agents;
    await expectWalk(byKey(await keyOf({ agentId })), { scopes: null, agent: 'own' });
    for (const scope of ['transactions:read', 'x402:write', 'policies:write'] as const)
      await expectWalk(byKey(await keyOf({ agentId, scopes: [scope] })), { scopes: [scope], agent: 'own' });
  });

  it("is as if another agent's business were not there, with a key of an agent", async () => {
    await expectWalk(byKey(await keyOf({ agentId: anotherAgent })), { scopes: null, agent: 'another' });
  });

  it("is as if another account's things were not there", async () => {
    await expectWalk(byKey(another.key), { scopes: null, of: 'another' });
    for (const role of roles) await expectWalk(byToken(await tokenOf(role, another)), { role, of: 'another' });
  });

  it('is less for keys where an account leaves policies to people', async () => {
    const strict = await api.account();
    await updateAccount(api.pool, { id: strict.id, change: { policy_writes: 'bearer' } });
    await expectWalk(byKey(strict.key), { scopes: null, of: 'another', policiesByPeople: true });
    await expectWalk(byToken(await tokenOf('admin', strict)), { role: 'admin', of: 'another' });
  });

  it.each<[string, (id: string) => string]>([
    ['could be', (id) => newId(id.split('_')[0] as Parameters<typeof newId>[0])],
    ['never can be', () => "x'--"],
  ])('is told before what is there, of an id that %s', async (_what, made) => {
    const ids = Object.fromEntries(Object.entries(things).map(([kind, id]) => [kind, made(id)]));
    const nothing = { ids, exists: false };
    await expectWalk({}, 'nobody', nothing);
    await expectWalk(byKey(account.key), { scopes: null }, nothing);
    await expectWalk(byKey(await keyOf({ scopes: ['agents:read'] })), { scopes: ['agents:read'] }, nothing);
    await expectWalk(byKey(await keyOf({ agentId: things.agents })), { scopes: null, agent: 'own' }, nothing);
    for (const role of ['viewer', 'owner'] as const) await expectWalk(byToken(await tokenOf(role)), { role }, nothing);
  });

  it('says to a key which scope it lacks, and to a person which role', async () => {
    const path = `/api/v1/policies/${things.policies}`;
    const { body } = await callWith(api.url, byKey(await keyOf({ scopes: ['policies:read'] })))('DELETE', path);
    expect(body.message).toContain('does not have the scope policies:write');
    const viewer = await personOf('viewer');
    expect((await viewer.call('DELETE', path)).body.message).toContain('role admin; you are viewer');
  });

  it('tells a signature, which is as good as money, to whoever may pay and not to whoever may look', async () => {
    const stamp = { nonce: `0x${'1'.repeat(64)}`, validAfter: 0, validBefore: 9_999_999_999 } as const;
    await stampX402Payment(api.pool, { id: things.payments!, stamp });
    await completeX402Payment(api.pool, { id: things.payments!, paymentSignature: 'signature' });
    const path = `/api/v1/x402/sessions/${things.sessions}/payments`;
    const seenBy = async (credentials: Credentials) => {
      const call = callWith(api.url, credentials);
      const [one, list] = [await call('GET', `${path}/${things.payments}`), await call('GET', path)];
      return [one.body.status, one.body.payment_signature, list.body.data[0].payment_signature];
    };
    const payers = [
      ...[byKey(account.key), byKey(await keyOf({ scopes: ['x402:write'], agentId: things.agents }))],
      byToken(await tokenOf('admin')),
    ];
    for (const payer of payers) expect(await seenBy(payer)).toEqual(['completed', 'signature', 'signature']);
    const readers = [byKey(await keyOf({ scopes: ['x402:read'] })), byToken(await tokenOf('approver'))];
    for (const reader of readers) expect(await seenBy(reader)).toEqual(['completed', null, null]);
  });

  it('is asked before which methods a path has, where it is not open to all', async () => {
    const key = byKey(await keyOf({ scopes: ['account:read'] }));
    for (const [path, group] of Map.groupBy(operations, (each) => each.path)) {
      const isOpen = (access as Readonly<Record<string, Access>>)[group[0]!.id]!.by === 'anybody';
      const url = pathWith({ path }, things);
      const statuses = [await callWith(api.url, {})('PATCH', url), await callWith(api.url, key)('PATCH', url)];
      expect([path, ...statuses.map(({ status }) => status)]).toEqual([path, isOpen ? 405 : 401, 405]);
    }
  });

  it('is the same for HEAD as for GET', async () => {
    const limited = byKey(await keyOf({ scopes: ['account:read'] }));
    for (const operation of operations.filter(({ method }) => method === 'GET')) {
      const path = pathWith(operation, things) + wrongInput;
      const statuses = [await ask('HEAD', path, {}), await ask('HEAD', path, limited)];
      expect([operation.id, ...statuses]).toEqual([
        operation.id,
        401,
        expected(operation, { scopes: ['account:read'] })[0],
      ]);
    }
  });

  it.each<[string, (path: string) => string]>([
    ['ends in a slash', (path) => `${path}/`],
    ['is in capitals', (path) => path.toUpperCase()],
    ['has a part in capitals', (path) => path.replace('/v1/', '/V1/')],
    ['has two slashes', (path) => path.replace('/v1/', '/v1//')],
    ['begins with two slashes', (path) => `/${path}`],
    ['goes through a dot', (path) => path.replace('/v1/', '/v1/./')],
    ['goes up and down', (path) => path.replace('/v1/', '/v1/events/../')],
    ['starts in what is open', (path) => path.replace('/v1/', '/v1/auth/exchange/../../')],
    ['starts in the health check', (path) => `/healthz/..${path}`],
    ['has an encoded slash at its end', (path) => `${path}%2F`],
    ['has an encoded slash inside', (path) => path.replace(/\/(?=[^/]*$)/, '%2f')],
    ['has an encoded letter', (path) => path.replace(/(\/v1\/)(.)/, (_all, start, letter) => start + encoded(letter))],
    ['has a parameter of its own', (path) => `${path};x=1`],
    ['is followed by nothing but NUL', (path) => `${path}%00`],
    ['is a whole address', (path) => `http://127.0.0.1${path}`],
  ])('is not more where the path %s', async (_what, bend) => {
    const foreign = byKey(await keyOf({ agentId: anotherAgent }));
    const guarded = operations.filter(({ id }) => (access as Readonly<Record<string, Access>>)[id]!.by !== 'anybody');
    const seen = guarded.map(async (operation) => {
      const path = bend(pathWith(operation, things)) + wrongInput;
      const [nobody, stranger] = [await ask(operation.method, path, {}), await ask(operation.method, path, foreign)];
      const [, code] = expected(operation, { scopes: null, agent: 'another' });
      const least = code === 'invalid_request' ? [400, 404] : [403, 404];
      return [operation.id, [401, 404].includes(nobody), [...least, 405].includes(stranger)] as const;
    });
    for (const [id, isClosed, isLimited] of await Promise.all(seen))
      expect([id, isClosed, isLimited]).toEqual([id, true, true]);
  });

  /** The path as it is written: `fetch` would put it right first. @returns the status */
  function ask(method: string, path: string, credentials: Credentials): Promise<number> {
    const { hostname, port } = new URL(api.url);
    const body = method === 'GET' || method === 'HEAD' ? '' : '{}';
    return new Promise((resolve, reject) => {
      const headers = { ...credentials, 'content-type': 'application/json', 'content-length': body.length };
      const asked = request({ hostname, port, method, path, headers, agent: false }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode!));
      });
      asked.on('error', reject).end(body);
    });
  }
});

const encoded = (letter: string) => `%${letter.charCodeAt(0).toString(16)}`;
