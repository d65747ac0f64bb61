import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ProviderUser } from '../../../dev/provider.ts';
import { insertMember } from '../../../shared/db/members.ts';
import { type SignInWorld, signIn, startSignInWorld, tokensOf } from './sign-in-calls.ts';

const refusal = { status: 403, body: { code: 'insufficient_permissions' } };
let world: SignInWorld;
let trusting: SignInWorld;
let telling: SignInWorld;

beforeAll(async () => {
  [world, trusting, telling] = await Promise.all([
    startSignInWorld(),
    startSignInWorld({ trustsEmail: true }),
    startSignInWorld({ settings: { conformIdTokenClaims: false } }),
  ]);
});
afterAll(() => Promise.all([world, trusting, telling].map((each) => each?.stop())));

let accountId: string;
let invited: string;
let names = 0;
const inviteAt = async ({ api }: SignInWorld) => {
  accountId = (await api.account()).id;
  names += 1;
  invited = `invited${names}@example.com`;
  await insertMember(api.pool, { accountId, email: invited, role: 'admin' });
};
beforeEach(() => inviteAt(world));

/** Somebody at the provider, who was called otherwise before. */
function person(email: string, { sub, ...claims }: Partial<ProviderUser>, at = world): string {
  const name = `${sub}${names}`;
  const before = at.provider.users.findIndex((each) => each.sub === name);
  if (before >= 0) at.provider.users.splice(before, 1);
  return at.provider.add(email, { sub: name, ...claims });
}
const memberUser = async () =>
  (await world.api.pool.query('select user_id from members where email = $1', [invited])).rows[0].user_id;

describe('an address', () => {
  it.each<[string, Partial<ProviderUser>]>([
    ['that the provider calls unverified', { email_verified: false }],
    ['that it calls unverified in text', { email_verified: 'false' }],
    ['of which it says nothing', { email_verified: undefined as never }],
  ])('%s joins nobody to what the address is invited to', async (_, claims) => {
    const refused = await signIn(world, person(invited, { sub: 'mallory', ...claims }));
    expect(refused).toMatchObject(refusal);
    expect(refused.body.message).toContain('no address of yours that it has verified');
    expect(await memberUser()).toBeNull();
    const { rows } = await world.api.pool.query('select from users where subject = $1', [`mallory${names}`]);
    expect(rows).toEqual([]);
  });

  it('of which a provider says nothing counts where it is trusted to know its people; one that it denies never does', async () => {
    await inviteAt(trusting);
    const denied = person(invited, { sub: 'mallory', email_verified: false }, trusting);
    expect(await signIn(trusting, denied)).toMatchObject(refusal);
    trusting.provider.users.length = 0;
    person(invited, { sub: 'ann', email_verified: undefined as never }, trusting);
    expect((await tokensOf(trusting, invited)).user.email).toBe(invited);
  });

  it.each([
    ['another one', (email: string) => email.replace('.com', '.org')],
    ['one with more before it', (email: string) => `not-${email}`],
    ['one with a letter that becomes ASCII in lower case', (email: string) => email.replace('i', 'İ')],
    ['one with a Kelvin sign', (email: string) => email.replace('v', '\u212A')],
    ['two in one', (email: string) => `${email},other@example.com`],
    ['one with a space', (email: string) => `${email} `],
  ])('like %s accepts no invitation of it', async (_, like) => {
    expect(await signIn(world, person(like(invited), { sub: 'mallory' }))).toMatchObject(refusal);
    expect(await memberUser()).toBeNull();
  });

  it('in other case is the same one', async () => {
    const tokens = await tokensOf(world, person(invited.toUpperCase(), { sub: 'ann' }));
    expect(tokens.user.email).toBe(invited);
    expect((await world.api.tokens.verify(tokens.access_token)).accountId).toBe(accountId);
  });

  it('is taken by the first who comes with it: a second person with the same address does not become the first', async () => {
    const { user } = await tokensOf(world, person(invited, { sub: 'ann' }));
    person('elsewhere@example.com', { sub: 'ann' });
    expect(await signIn(world, person(invited, { sub: 'ben' }))).toMatchObject(refusal);
    expect(await memberUser()).toBe(user.id);
  });

  it('that is verified no more takes nobody’s membership away, and is not theirs any more', async () => {
    await tokensOf(world, person(invited, { sub: 'ann' }));
    const tokens = await tokensOf(world, person(invited, { sub: 'ann', email_verified: false }));
    expect(tokens.user.email).toBeNull();
    expect((await world.api.tokens.verify(tokens.access_token)).accountId).toBe(accountId);
  });

  it('is found in the ID token as well as at the userinfo endpoint', async () => {
    await inviteAt(telling);
    let told: unknown;
    telling.provider.lie = (claims) => {
      told = claims.email;
      return {};
    };
    expect((await tokensOf(telling, person(invited, { sub: 'ann' }, telling))).user.email).toBe(invited);
    expect(told).toBe(invited);
  });
});
