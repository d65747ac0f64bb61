import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { insertMember } from '../../../shared/db/members.ts';
import { callWith } from './harness.ts';
import { exchange, type SignInWorld, signIn, startSignInWorld, tokensOf } from './sign-in-calls.ts';

let world: SignInWorld;
let accountId: string;
let email: string;

beforeAll(async () => {
  world = await startSignInWorld();
  accountId = (await world.api.account()).id;
  email = world.provider.add('ann@example.com');
  await insertMember(world.api.pool, { accountId, email, role: 'owner' });
});
afterAll(() => world?.stop());

const newCode = async (): Promise<string> => (await signIn(world, email)).body.exchange_code;
const at = (code: string, headers?: Record<string, string>) => exchange(world.api.url, code, headers);
const sessionOf = async (answer: { body: { access_token: string } }) =>
  (await world.api.tokens.verify(answer.body.access_token)).sessionId;
const sessions = async (): Promise<{ id: string; revoked_reason: string | null }[]> =>
  (await world.api.pool.query('select id, revoked_reason from auth_sessions where account_id = $1', [accountId])).rows;
const revokedReason = async (id: string) => (await sessions()).find((each) => each.id === id)?.revoked_reason;
const noted = async (action: string) =>
  (
    await world.api.pool.query(
      `select actor_type, actor_id, resource_id, result, metadata from audit_inbox
       where account_id = $1 and action = $2 order by created_at desc, id desc`,
      [accountId, action],
    )
  ).rows;
const refusal = { status: 401, body: { code: 'authentication_failed' } };

describe('an exchange code', () => {
  it('that was used before ends the session that it began, tokens and all, and that is noted', async () => {
    const code = await newCode();
    const first = await at(code);
    const sessionId = await sessionOf(first);
    const before = (await sessions()).length;
    const second = await at(code);
    expect(second).toMatchObject(refusal);
    expect(second.body.message).toContain('used before');
    expect(second.headers.get('www-authenticate')).toMatch(/^Bearer/);
    expect(await revokedReason(sessionId)).toBe('code_reused');
    expect((await sessions()).length).toBe(before);

    const call = callWith(world.api.url, { authorization: `Bearer ${first.body.access_token}` });
    expect(await call('GET', '/api/v1/agents')).toMatchObject(refusal);
    const refresh = await callWith(world.api.url, {})('POST', '/api/v1/auth/refresh', {
      refresh_token: first.body.refresh_token,
    });
    expect(refresh).toMatchObject(refusal);
    expect((await noted('session.revoked'))[0]).toMatchObject({
      actor_type: 'system',
      resource_id: sessionId,
      metadata: { reason: 'code_reused', user_id: first.body.user.id },
    });
    expect(await noted('credential.denied')).toContainEqual(
      expect.objectContaining({
        actor_type: 'user',
        actor_id: first.body.user.id,
        result: 'denied',
        metadata: expect.objectContaining({ reason: 'code_reused' }),
      }),
    );
    // A third use finds nothing more to end.
    expect(await at(code)).toMatchObject(refusal);
    expect((await noted('session.revoked')).filter(({ resource_id }) => resource_id === sessionId)).toHaveLength(1);
  });

  it('of another sign-in is not touched by that', async () => {
    const kept = await at(await newCode());
    const code = await newCode();
    await at(code);
    await at(code);
    expect(await revokedReason(await sessionOf(kept))).toBeNull();
  });

  it('brings one session, ended again, when it is sent many times at once', async () => {
    const code = await newCode();
    const before = (await sessions()).length;
    const answers = await Promise.all(Array.from({ length: 10 }, () => at(code)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array(9).fill(401)]);
    expect((await sessions()).length).toBe(before + 1);
    const done = answers.find(({ status }) => status === 200)!;
    expect(await revokedReason(await sessionOf(done))).toBe('code_reused');
  });

  it('is good for a minute by the clock of the database, and begins no session after that', async () => {
    const code = await newCode();
    await world.api.pool.query(`update exchange_codes set expires_at = clock_timestamp() where session_id is null`);
    const before = (await sessions()).length;
    const answer = await at(code);
    expect(answer).toMatchObject(refusal);
    expect(answer.body.message).toContain('expired');
    expect((await sessions()).length).toBe(before);
    const { rows } = await world.api.pool.query<{ seconds: number }>(
      'select extract(epoch from expires_at - created_at)::int as seconds from exchange_codes where session_id is not null',
    );
    expect(new Set(rows.map(({ seconds }) => seconds))).toEqual(new Set([60]));
  });

  it('that was used ends its session also after its minute', async () => {
    const code = await newCode();
    const first = await at(code);
    await world.api.pool.query(`update exchange_codes set expires_at = clock_timestamp() - interval '1 hour'`);
    expect(await at(code)).toMatchObject(refusal);
    expect(await revokedReason(await sessionOf(first))).toBe('code_reused');
  });

  it.each([
    ['nobody has', `purser_code_${'A'.repeat(43)}`],
    ['of another shape', 'x'],
    ['that is empty', ''],
    ['without an end', 'x'.repeat(100_000)],
    ['with a NUL', 'purser_code_\u0000'],
    ['that is a refresh token', `purser_refresh_${'A'.repeat(43)}`],
  ])('%s is refused', async (_, code) => {
    expect(await at(code)).toMatchObject(refusal);
  });

  it('is not good any more once its person was removed from the account, and stays unused', async () => {
    const ben = world.provider.add('ben@example.com');
    await insertMember(world.api.pool, { accountId, email: ben, role: 'viewer' });
    const { body } = await signIn(world, ben);
    await world.api.pool.query('delete from members where email = $1', [ben]);
    const before = (await sessions()).length;
    expect(await at(body.exchange_code)).toMatchObject(refusal);
    expect((await sessions()).length).toBe(before);
  });

  it('is taken with no credential, and with none that would be refused', async () => {
    const code = await newCode();
    expect((await at(code, { authorization: 'Bearer broken', 'x-api-key': 'broken' })).status).toBe(200);
  });

  it.each([
    ['no body', undefined],
    ['no code', {}],
    ['a code that is no text', { exchange_code: 7 }],
    ['a member more', { exchange_code: 'x', more: 1 }],
  ])('with %s is 400', async (_, body) => {
    const answer = await callWith(world.api.url, {})('POST', '/api/v1/auth/exchange', body);
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });
});

describe('an Idempotency-Key of an exchange', () => {
  it('refuses a repeat, which is no second use of the code', async () => {
    const code = await newCode();
    const key = { 'Idempotency-Key': 'exchange-1' };
    const first = await at(code, key);
    expect(first.status).toBe(200);
    const repeat = await at(code, key);
    expect(repeat).toMatchObject({ status: 409, body: { code: 'idempotency_key_conflict' } });
    expect(repeat.headers.get('idempotent-replayed')).toBeNull();
    expect(await at(await newCode(), key)).toMatchObject({ status: 409 });
    expect(await revokedReason(await sessionOf(first))).toBeNull();
    expect(await at(code, { 'Idempotency-Key': 'exchange-2' })).toMatchObject(refusal);
    expect(await revokedReason(await sessionOf(first))).toBe('code_reused');
  });

  it('lets one of many through that come at once, and its session lives', async () => {
    const code = await newCode();
    const answers = await Promise.all(Array.from({ length: 8 }, () => at(code, { 'Idempotency-Key': 'at once' })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array(7).fill(409)]);
    expect(await revokedReason(await sessionOf(answers.find(({ status }) => status === 200)!))).toBeNull();
  });

  it('with two codes at once begins one session', async () => {
    const [one, other] = [await newCode(), await newCode()];
    const before = (await sessions()).length;
    const answers = await Promise.all([one, other].map((code) => at(code, { 'Idempotency-Key': 'two codes' })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    expect((await sessions()).length).toBe(before + 1);
  });

  it('keeps no answer, and is not used up by a refusal', async () => {
    await tokensOf(world, email);
    const code = await newCode();
    await world.api.pool.query('update exchange_codes set expires_at = now() where session_id is null');
    const key = { 'Idempotency-Key': 'refused first' };
    expect(await at(code, key)).toMatchObject(refusal);
    expect((await at(await newCode(), key)).status).toBe(200);
    const { rows } = await world.api.pool.query<{ status: number | null; answer: string | null }>(
      'select status, answer from idempotency_keys where account_id = $1',
      [accountId],
    );
    expect(rows.every(({ status, answer }) => status === null && answer === null)).toBe(true);
  });
});
