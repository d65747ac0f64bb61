import { createIssueTokens } from '../../../api/tokens/issue-tokens.ts';
import { hashRefreshToken } from '../../../api/tokens/refresh-token.ts';
import { callWith, type TestAccount, type TestApi, type TestPerson } from './harness.ts';

export const refreshPath = '/api/v1/auth/refresh';

/** Somebody who is signed in, with their first refresh token. */
export interface Refresher extends TestPerson {
  readonly email: string;
  readonly refreshToken: string;
}

let people = 0;

export async function startRefreshing(api: TestApi, account: TestAccount): Promise<Refresher> {
  people += 1;
  const email = `refresher-${people}@example.com`;
  const person = await account.person(email, { role: 'viewer' });
  const { userId, sessionId } = person;
  const issue = createIssueTokens({ tokens: api.tokens });
  const { refresh_token: refreshToken } = await issue(api.pool, { accountId: account.id, userId, sessionId });
  return { ...person, email, refreshToken };
}

/** Asks an api for the next pair. */
export function refresherAt(url: string) {
  const call = callWith(url, {});
  return (token: string, headers: Record<string, string> = {}) =>
    call('POST', refreshPath, { refresh_token: token }, headers);
}

/** Whether an api takes an access token. */
export async function isSignedIn(url: string, accessToken: string): Promise<boolean> {
  const { status } = await callWith(url, { authorization: `Bearer ${accessToken}` })('GET', '/api/v1/agents');
  return status === 200;
}

/** Has time pass for the refresh tokens of a session, as if all had happened so much earlier. */
export async function letPass({ pool }: TestApi, { sessionId, seconds }: { sessionId: string; seconds: number }) {
  await pool.query(
    `update refresh_tokens set used_at = used_at - $2 * interval '1 second', expires_at = expires_at - $2 * interval '1 second'
     where session_id = $1`,
    [sessionId, seconds],
  );
}

export async function rowsOf({ pool }: TestApi, { sessionId }: { sessionId: string }) {
  const { rows } = await pool.query<{ hash: Buffer; is_used: boolean }>(
    'select hash, used_at is not null as is_used from refresh_tokens where session_id = $1 order by created_at',
    [sessionId],
  );
  return rows;
}

export async function endOf({ pool }: TestApi, { sessionId }: { sessionId: string }): Promise<string | null> {
  const { rows } = await pool.query('select revoked_reason from auth_sessions where id = $1', [sessionId]);
  return rows[0].revoked_reason;
}

export async function expireNow({ pool }: TestApi, { token }: { token: string }) {
  await pool.query('update refresh_tokens set expires_at = clock_timestamp() where hash = $1', [
    hashRefreshToken(token),
  ]);
}
