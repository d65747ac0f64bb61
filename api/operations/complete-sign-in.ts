import { createAccount, updateAccount } from '../../shared/db/accounts.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { insertExchangeCode } from '../../shared/db/exchange-codes.ts';
import {
  acceptInvitations,
  hasMembers,
  insertMember,
  listMemberships,
  lockFirstMember,
  type MemberRow,
  type MembershipRow,
} from '../../shared/db/members.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/db/pool.ts';
import { type UserRow, upsertUser } from '../../shared/db/users.ts';
import { chooseAccount } from '../../shared/domain/choose-account.ts';
import { PurserError } from '../../shared/errors.ts';
import { renderAccount } from '../../shared/render-account.ts';
import type { Origin } from '../acting.ts';
import { exchangeCodeSeconds, hashExchangeCode, newExchangeCode } from '../tokens/exchange-code.ts';

/** Whose first sign-in opens an account: of the first person of the installation, of anybody, of nobody. */
export type SignUp = 'first' | 'anyone' | 'invited';

/** Somebody, as the identity provider knows them. */
export interface Person {
  readonly issuer: string;
  readonly subject: string;
  /** Lower case; null unless it is verified. */
  readonly email: string | null;
  readonly name: string | null;
}

/** What is to be exchanged for tokens. */
export interface ExchangeCode {
  readonly code: string;
  /** Seconds that it is good for. */
  readonly expiresIn: number;
}

interface SignIn {
  readonly person: Person;
  /** The account that they asked for. */
  readonly accountId: string | undefined;
  readonly signUp: SignUp;
  readonly origin: Origin;
}

/**
 * Lets somebody in who has proven to the identity provider who they are: they become a member of every account that has
 * invited their verified address, and get a code for one account. Nothing is kept of somebody who may not come in.
 * @throws PurserError 403
 */
export async function completeSignIn(pool: Pool, signIn: SignIn): Promise<ExchangeCode> {
  return inTransaction(pool, async (db) => {
    // Whoever signs in as the same person at once waits for us here.
    const user = await upsertUser(db, signIn.person);
    const acting: Acting = { actor: { type: 'user', id: user.id, name: user.email }, ...signIn.origin };
    const accountId = await accountOf(db, { ...signIn, user, acting });
    const code = newExchangeCode();
    await insertExchangeCode(db, {
      hash: hashExchangeCode(code),
      accountId,
      userId: user.id,
      lifetimeSeconds: exchangeCodeSeconds,
    });
    return { code, expiresIn: exchangeCodeSeconds };
  });
}

interface Entering extends SignIn {
  readonly user: UserRow;
  readonly acting: Acting;
}

async function accountOf(db: Queryable, entering: Entering): Promise<string> {
  const { user, accountId: asked, acting } = entering;
  const joined = user.email === null ? [] : await acceptInvitations(db, { userId: user.id, email: user.email });
  for (const member of joined) await noteJoined(db, { member, acting });
  const chosen = choose(await listMemberships(db, { userId: user.id }), { joined, asked });
  if (chosen !== undefined) return chosen;
  if (asked !== undefined)
    throw refused(
      `You do not belong to ${asked}. Ask somebody who owns it to invite you, or sign in without naming it.`,
    );
  return signUpFor(db, entering);
}

function choose(
  memberships: readonly MembershipRow[],
  { joined, asked }: { joined: readonly MemberRow[]; asked: string | undefined },
): string | undefined {
  const isNew = (id: string) => joined.some((each) => each.id === id);
  return chooseAccount({
    asked,
    memberships: memberships.map((each) => ({
      accountId: each.account_id,
      invitedAt: each.created_at.getTime(),
      joinedAt: each.joined_at.getTime(),
      isNew: isNew(each.id),
      lastSignInAt: each.last_sign_in_at?.getTime() ?? null,
    })),
  });
}

/** Somebody who belongs to no account. */
async function signUpFor(db: Queryable, { user, signUp, acting }: Entering): Promise<string> {
  if (user.email === null)
    throw refused(
      'Your identity provider names no address of yours that it has verified, so nobody can be told that you are invited. Verify your address there, then sign in again.',
    );
  if (signUp === 'first') await lockFirstMember(db);
  const maySignUp = signUp === 'anyone' || (signUp === 'first' && !(await hasMembers(db)));
  if (!maySignUp)
    throw refused(
      `${user.email} belongs to no account here. Ask somebody who owns one to invite that address, then sign in again.`,
    );
  return openOwnAccount(db, { email: user.email, userId: user.id, acting });
}

/** An account without any key: its owner makes those. */
async function openOwnAccount(
  db: Queryable,
  { email, userId, acting }: { email: string; userId: string; acting: Acting },
): Promise<string> {
  const id = await createAccount(db, { name: accountName(email), plan: 'starter' });
  const account = (await updateAccount(db, { id, change: { owner_email: email } }))!;
  await insertAudit(db, {
    accountId: id,
    action: 'account.created',
    acting,
    resourceType: 'account',
    resourceId: id,
    result: 'success',
    changes: { before: null, after: renderAccount(account) },
  });
  await insertMember(db, { accountId: id, email, role: 'owner' });
  for (const member of await acceptInvitations(db, { userId, email })) await noteJoined(db, { member, acting });
  return id;
}

/** Names have 128 characters at most, addresses 254. */
const accountName = (email: string) => `Account of ${email}`.slice(0, 128);

function noteJoined(db: Queryable, { member, acting }: { member: MemberRow; acting: Acting }): Promise<void> {
  const { id, account_id: accountId, user_id, email, role } = member;
  return insertAudit(db, {
    accountId,
    action: 'member.joined',
    acting,
    resourceType: 'member',
    resourceId: id,
    result: 'success',
    metadata: { user_id, email, role },
  });
}

const refused = (message: string) => new PurserError('insufficient_permissions', message);
