import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { acceptInvitations } from '../../../shared/db/members.ts';
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
const remove = (by: TestPerson, id: string) => by.call('DELETE', `${path}/${id}`);

async function idOf(email: string): Promise<string> {
  const { rows } = await api.pool.query<{ id: string }>('select id from members where account_id = $1 and email = $2', [
    account.id,
    email,
  ]);
  return rows[0]!.id;
}
const isSignedIn = async (person: TestPerson) => (await person.call('GET', path)).status === 200;

describe('removing a member', () => {
  it('ends their sessions of this account at once, and no others', async () => {
    const bob = await account.person('bob@example.com', { role: 'approver' });
    const again = await account.person('bob@example.com', { role: 'approver' });
    const elsewhere = await (await api.account()).person('bob@example.com');
    const id = await idOf('bob@example.com');
    expect(await isSignedIn(bob)).toBe(true);
    const answer = await remove(adam, id);
    expect([answer.status, answer.body]).toEqual([200, { id, deleted: true }]);
    for (const person of [bob, again]) {
      const { status, body } = await person.call('GET', path);
      expect([status, body.code]).toEqual([401, 'authentication_failed']);
    }
    expect([await isSignedIn(elsewhere), await isSignedIn(ann)]).toEqual([true, true]);
    expect((await remove(adam, id)).status).toBe(404);
    const { rows } = await api.pool.query(
      `select id, revoked_reason from auth_sessions where account_id = $1 and user_id = $2 order by id`,
      [account.id, bob.userId],
    );
    const sessions = [bob, again].map(({ sessionId }) => sessionId).toSorted();
    expect(rows).toEqual(sessions.map((each) => ({ id: each, revoked_reason: 'member_removed' })));
    const { rows: logged } = await api.pool.query(
      `select action, resource_id, actor_id, metadata from audit_inbox
       where account_id = $1 and action in ('session.revoked', 'member.removed') order by action, resource_id`,
      [account.id],
    );
    const ofSession = { reason: 'member_removed', user_id: bob.userId };
    expect(logged).toEqual([
      { action: 'member.removed', resource_id: id, actor_id: adam.userId, metadata: {} },
      ...sessions.map((each) => ({
        ...{ action: 'session.revoked', resource_id: each, actor_id: adam.userId },
        metadata: ofSession,
      })),
    ]);
  });

  it('stays so when they are invited again: they have to sign in', async () => {
    const bob = await account.person('bob@example.com', { role: 'viewer' });
    await remove(ann, await idOf('bob@example.com'));
    await invite(ann, 'bob@example.com', 'viewer');
    await acceptInvitations(api.pool, { userId: bob.userId, email: 'bob@example.com' });
    expect(await isSignedIn(bob)).toBe(false);
    expect(await isSignedIn(await account.person('bob@example.com'))).toBe(true);
  });

  it('has codes of a sign-in that are not exchanged yet be good for nothing', async () => {
    const bob = await account.person('bob@example.com', { role: 'viewer' });
    const insert = (userId: string) =>
      api.pool.query(
        `insert into exchange_codes (hash, account_id, user_id, expires_at)
         values (decode(md5($2), 'hex'), $1, $2, now() + interval '1 minute')`,
        [account.id, userId],
      );
    await insert(bob.userId);
    await insert(ann.userId);
    await remove(ann, await idOf('bob@example.com'));
    const { rows } = await api.pool.query('select user_id from exchange_codes where account_id = $1', [account.id]);
    expect(rows).toEqual([{ user_id: ann.userId }]);
  });

  it('is done by admins to themselves as well', async () => {
    expect((await remove(adam, await idOf('adam@example.com'))).status).toBe(200);
    expect(await isSignedIn(adam)).toBe(false);
  });
});
