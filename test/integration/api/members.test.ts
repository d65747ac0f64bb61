import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { roles } from '../../../shared/domain/access.ts';
import { newId } from '../../../shared/ids.ts';
import { startTestApi, type TestAccount, type TestApi, type TestPerson } from './harness.ts';

const path = '/api/v1/account/members';

let api: TestApi;
let account: TestAccount;
/** Ann is an owner, Adam an admin. */
let ann: TestPerson;
let adam: TestPerson;
beforeAll(async () => {
  api = await startTestApi({ temporalAddress: '127.0.0.1:1' });
});
afterAll(() => api?.stop());
beforeEach(async () => {
  account = await api.account();
  ann = await account.person('ann@example.com');
  adam = await account.person('adam@example.com', { role: 'admin' });
});

const invite = (by: TestPerson, email: string, role: string) => by.call('POST', path, { email, role });
const change = (by: TestPerson, id: string, role: string) => by.call('PUT', `${path}/${id}`, { role });
const remove = (by: TestPerson, id: string) => by.call('DELETE', `${path}/${id}`);

interface Listed {
  id: string;
  email: string;
  role: string;
  status: string;
  user_id: string | null;
}
async function members(): Promise<Listed[]> {
  const { rows } = await api.pool.query('select * from members where account_id = $1 order by email', [account.id]);
  return rows;
}
async function idOf(email: string): Promise<string> {
  return (await members()).find((each) => each.email === email)!.id;
}
const isSignedIn = async (person: TestPerson) => (await person.call('GET', path)).status === 200;

describe('members of an account', () => {
  it('are listed with those who are invited, newest first', async () => {
    const invited = await invite(ann, 'Bob@Example.com', 'approver');
    expect(invited.body).toEqual({
      id: expect.stringMatching(/^mbr_/),
      email: 'bob@example.com',
      role: 'approver',
      status: 'invited',
      user_id: null,
      created_at: expect.stringMatching(/Z$/),
      joined_at: null,
    });
    const { body } = await ann.call('GET', path);
    expect(body).toMatchObject({ total: 3, has_more: false });
    expect(body.data[0]).toEqual(invited.body);
    expect(body.data[1]).toMatchObject({ email: 'adam@example.com', status: 'active', user_id: adam.userId });
    expect(body.data[1].joined_at).toMatch(/Z$/);
    const page = await ann.call('GET', `${path}?page_num=2&page_size=2`);
    expect(page.body).toMatchObject({ data: [{ email: 'ann@example.com', role: 'owner' }], total: 3 });
  });

  it('become active when somebody signs in with the address', async () => {
    const { body: invited } = await invite(ann, 'bob@example.com', 'approver');
    const bob = await account.person('bob@example.com');
    const { body } = await bob.call('GET', path);
    expect(body.data[0]).toMatchObject({ id: invited.id, role: 'approver', status: 'active', user_id: bob.userId });
  });

  it('are not those of another account', async () => {
    const eve = await (await api.account()).person('eve@example.com');
    const { id } = (await invite(ann, 'bob@example.com', 'viewer')).body;
    expect((await eve.call('GET', path)).body.data.map(({ email }: Listed) => email)).toEqual(['eve@example.com']);
    expect([(await change(eve, id, 'admin')).status, (await remove(eve, id)).status]).toEqual([404, 404]);
    for (const unknown of [newId('mbr'), 'x', newId('key')])
      expect([(await change(ann, unknown, 'admin')).status, (await remove(ann, unknown)).status]).toEqual([404, 404]);
  });

  it.each([
    [{ role: 'viewer' }, 'email', /required/],
    [{ email: 'bob', role: 'viewer' }, 'email', /e-mail address/],
    [{ email: 'b\u00f6b@example.com', role: 'viewer' }, 'email', /e-mail address/],
    [{ email: `${'b'.repeat(250)}@example.com`, role: 'viewer' }, 'email', /e-mail address/],
    [{ email: 'bob@example.com' }, 'role', /required/],
    [{ email: 'bob@example.com', role: 'king' }, 'role', /"viewer" or "approver" or "admin" or "owner"/],
    [{ email: 'bob@example.com', role: 'viewer', id: 'mbr_1' }, 'id', /not known here/],
    [{ email: 'ADAM@example.com', role: 'viewer' }, 'email', /"adam@example.com" belongs to this account/],
  ])('are not invited by %j', async (body, param, message) => {
    const answer = await ann.call('POST', path, body);
    expect([answer.status, answer.body.code, answer.body.param]).toEqual([400, 'invalid_request', param]);
    expect(answer.body.message).toMatch(message);
  });

  it('are invited once, by those who do it at once', async () => {
    const answers = await Promise.all([1, 2, 3, 4].map(() => invite(ann, 'bob@example.com', 'viewer')));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400, 400, 400]);
  });

  it('are invited once under an Idempotency-Key, with the same answer', async () => {
    const body = { email: 'bob@example.com', role: 'viewer' };
    const [first, second] = [
      await ann.call('POST', path, body, { 'idempotency-key': 'once' }),
      await ann.call('POST', path, body, { 'idempotency-key': 'once' }),
    ];
    expect([second.body, second.headers.get('idempotent-replayed')]).toEqual([first.body, 'true']);
  });

  it('are at most 1,000, exactly, also when they are invited at once', async () => {
    await api.pool.query(
      `insert into members (id, account_id, email, role)
       select 'mbr_' || n || $1, $1, n || '@example.com', 'viewer' from generate_series(1, 996) n`,
      [account.id],
    );
    const answers = await Promise.all([1, 2, 3, 4].map((n) => invite(ann, `last-${n}@example.com`, 'viewer')));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 200, 403, 403]);
    expect(await members()).toHaveLength(1_000);
  });
});

describe('a role', () => {
  it('counts at the next request', async () => {
    const bob = await account.person('bob@example.com', { role: 'viewer' });
    const id = await idOf('bob@example.com');
    const make = () => bob.call('POST', '/api/v1/api-keys', { name: 'by bob' });
    expect((await make()).status).toBe(403);
    expect((await change(ann, id, 'admin')).body).toMatchObject({ id, role: 'admin', status: 'active' });
    expect((await make()).status).toBe(200);
    await change(ann, id, 'viewer');
    expect((await make()).status).toBe(403);
  });

  it('is changed in an invitation as well, and holds when it is accepted', async () => {
    const { id } = (await invite(ann, 'bob@example.com', 'viewer')).body;
    await change(ann, id, 'approver');
    const bob = await account.person('bob@example.com');
    expect((await bob.call('POST', path, {})).body.message).toContain('you are approver');
  });

  it('that somebody has already is no change, and is not logged', async () => {
    const { id } = (await invite(ann, 'bob@example.com', 'viewer')).body;
    expect((await change(ann, id, 'viewer')).status).toBe(200);
    const { rowCount } = await api.pool.query(
      `select from audit_inbox where resource_id = $1 and action = 'member.updated'`,
      [id],
    );
    expect(rowCount).toBe(0);
  });

  it.each(['viewer', 'approver'] as const)('of %s lets nobody change who belongs to the account', async (role) => {
    const bob = await account.person('bob@example.com', { role });
    const before = await members();
    const own = await idOf('bob@example.com');
    expect((await bob.call('GET', path)).status).toBe(200);
    for (const answer of [
      await invite(bob, 'x@example.com', 'viewer'),
      await change(bob, own, 'admin'),
      await remove(bob, own),
    ])
      expect([answer.status, answer.body.code]).toEqual([403, 'insufficient_permissions']);
    expect(await members()).toEqual(before);
  });

  it('of owner is given, changed and taken by owners only', async () => {
    const annId = await idOf('ann@example.com');
    const adamId = await idOf('adam@example.com');
    const { id: invited } = (await invite(ann, 'olga@example.com', 'owner')).body;
    const before = await members();
    for (const answer of [
      await invite(adam, 'bob@example.com', 'owner'),
      await change(adam, adamId, 'owner'),
      await change(adam, annId, 'viewer'),
      await change(adam, annId, 'owner'),
      await change(adam, invited, 'viewer'),
      await remove(adam, annId),
      await remove(adam, invited),
    ]) {
      expect([answer.status, answer.body.code]).toEqual([403, 'insufficient_permissions']);
      expect(answer.body.message).toMatch(/Only an owner makes, changes or removes owners; you are admin/);
    }
    expect(await members()).toEqual(before);
    expect((await change(ann, adamId, 'owner')).status).toBe(200);
    expect((await remove(adam, annId)).status).toBe(200);
  });

  it('up to admin is for admins to give, also to each other', async () => {
    for (const role of roles.filter((each) => each !== 'owner')) {
      const { status, body } = await invite(adam, `${role}@example.com`, role);
      expect([status, body.role]).toEqual([200, role]);
    }
    expect((await change(adam, await idOf('admin@example.com'), 'viewer')).status).toBe(200);
  });
});

describe('the last owner', () => {
  it('stays one, until another has joined', async () => {
    const annId = await idOf('ann@example.com');
    const { id: olga } = (await invite(ann, 'olga@example.com', 'owner')).body;
    for (const answer of [await change(ann, annId, 'admin'), await remove(ann, annId)]) {
      expect([answer.status, answer.body.code]).toEqual([400, 'invalid_request']);
      expect(answer.body.message).toMatch(/ann@example\.com is the last owner.*who has signed in/);
    }
    expect((await change(ann, annId, 'admin')).body.param).toBe('role');
    // The invitation may be taken back, and given again.
    expect((await remove(ann, olga)).status).toBe(200);
    await invite(ann, 'olga@example.com', 'owner');
    await account.person('olga@example.com');
    expect((await change(ann, annId, 'admin')).status).toBe(200);
  });

  it('is left when two unmake each other at once', async () => {
    for (const ways of [
      [change, change],
      [remove, remove],
      [change, remove],
    ] as const)
      for (let round = 0; round < 5; round += 1) {
        const own = await api.account();
        const [one, two] = [await own.person('one@example.com'), await own.person('two@example.com')];
        const { body } = await one.call('GET', path);
        const [twoId, oneId] = body.data.map(({ id }: Listed) => id) as [string, string];
        const answers = await Promise.all([ways[0](one, twoId, 'viewer'), ways[1](two, oneId, 'viewer')]);
        const done = answers.filter(({ status }) => status === 200);
        expect([done.length, answers.map(({ status }) => status)]).toEqual([1, expect.any(Array)]);
        const { rows } = await api.pool.query(
          `select count(*)::int as owners from members where account_id = $1 and role = 'owner' and user_id is not null`,
          [own.id],
        );
        expect(rows).toEqual([{ owners: 1 }]);
      }
  });

  it('is not unmade by one who has been unmade since they asked', async () => {
    const bob = await account.person('bob@example.com');
    const carl = await account.person('carl@example.com');
    const [bobId, carlId] = [await idOf('bob@example.com'), await idOf('carl@example.com')];
    const held = await api.pool.connect();
    try {
      await held.query('begin');
      await held.query('select from accounts where id = $1 for update', [account.id]);
      const first = change(ann, bobId, 'viewer');
      await waiting(1);
      const second = remove(bob, carlId);
      await waiting(2);
      await held.query('commit');
      expect([(await first).status, (await second).status]).toEqual([200, 403]);
      expect((await second).body.message).toMatch(/you are viewer of this account/);
    } finally {
      held.release();
    }
    expect(await isSignedIn(carl)).toBe(true);
  });

  /** Until so many wait for the account. */
  async function waiting(count: number): Promise<void> {
    for (;;) {
      const { rowCount } = await api.pool.query(
        `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
      );
      if (rowCount === count) return;
    }
  }
});

describe('an API key', () => {
  it('neither sees nor changes who belongs to the account', async () => {
    const id = await idOf('adam@example.com');
    for (const [method, url, body] of [
      ['GET', path, undefined],
      ['POST', path, { email: 'mallory@example.com', role: 'owner' }],
      ['PUT', `${path}/${id}`, { role: 'owner' }],
      ['DELETE', `${path}/${id}`, undefined],
    ] as const) {
      const answer = await account.call(method, url, body);
      expect([answer.status, answer.body.code]).toEqual([403, 'insufficient_permissions']);
    }
  });
});
