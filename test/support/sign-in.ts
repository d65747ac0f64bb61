import { type AccessTokens, createAccessTokens } from '../../api/tokens/access-tokens.ts';
import { readTokenKeys } from '../../api/tokens/read-token-keys.ts';
import { insertAuthSession } from '../../shared/db/auth-sessions.ts';
import { acceptInvitations, insertMember } from '../../shared/db/members.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { upsertUser } from '../../shared/db/users.ts';
import type { Role } from '../../shared/domain/access.ts';

export interface SignedIn {
  readonly token: string;
  readonly userId: string;
  readonly sessionId: string;
}

/**
 * What a sign-in leaves behind, without the provider: for tests of what comes after it. The person is invited first,
 * if they are not a member yet.
 */
export async function signInWith(
  { pool, tokens }: { pool: Pool; tokens: AccessTokens },
  {
    accountId,
    email,
    role = 'owner',
    emailVerified = true,
    lifetimeSeconds = 3600,
  }: { accountId: string; email: string; role?: Role; emailVerified?: boolean; lifetimeSeconds?: number },
): Promise<SignedIn> {
  await insertMember(pool, { accountId, email, role });
  const who = { issuer: 'https://provider.test', subject: email.toLowerCase(), name: null };
  const { id: userId } = await upsertUser(pool, { ...who, email });
  await acceptInvitations(pool, { userId, email });
  if (!emailVerified) await upsertUser(pool, { ...who, email: null });
  const sessionId = await insertAuthSession(pool, { accountId, userId });
  const token = await tokens.sign({ accountId, userId, sessionId }, { lifetimeSeconds });
  return { token, userId, sessionId };
}

/** The same for a running installation. @param issuer its public URL */
export function openSignIn({
  databaseUrl,
  keysFile,
  issuer,
}: {
  databaseUrl: string;
  keysFile: string;
  issuer: string;
}) {
  const pool = createPool({ url: databaseUrl, max: 1, application: 'test-sign-in' });
  const keys = readTokenKeys(keysFile);
  const tokens = createAccessTokens({ keys: () => keys, issuer });
  return {
    signIn: (who: { accountId: string; email: string; role?: Role }) => signInWith({ pool, tokens }, who),
    close: () => pool.end(),
  };
}
