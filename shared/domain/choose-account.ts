/** An account that somebody belongs to; times are milliseconds since 1970. */
export interface Membership {
  readonly accountId: string;
  readonly invitedAt: number;
  readonly joinedAt: number;
  /** Whether they joined by this very sign-in. */
  readonly isNew: boolean;
  /** When they last signed in for it; null: never. */
  readonly lastSignInAt: number | null;
}

/**
 * Which account a sign-in is for: the one that was asked for; else the one whose invitation is accepted now, of several
 * the newest; else that of the last sign-in; else the one they have belonged to longest.
 * @returns its id; undefined where they do not belong to the one that was asked for, or to any
 */
export function chooseAccount({
  memberships,
  asked,
}: {
  memberships: readonly Membership[];
  asked: string | undefined;
}): string | undefined {
  if (asked !== undefined) return memberships.find(({ accountId }) => accountId === asked)?.accountId;
  const latest = (of: (membership: Membership) => number | null) =>
    memberships.filter((each) => of(each) !== null).toSorted((one, other) => of(other)! - of(one)!)[0]?.accountId;
  return (
    latest(({ isNew, invitedAt }) => (isNew ? invitedAt : null)) ??
    latest(({ lastSignInAt }) => lastSignInAt) ??
    latest(({ joinedAt }) => -joinedAt)
  );
}
