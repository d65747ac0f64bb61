import { isDeepStrictEqual } from 'node:util';
import { type AccountChange, type AccountRow, lockAccount, updateAccount } from '../../shared/db/accounts.ts';
import { type Acting, insertAudit } from '../../shared/db/audit.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { isInNetworks } from '../../shared/domain/networks.ts';
import { plansWithAllowlist } from '../../shared/domain/plans.ts';
import { PurserError } from '../../shared/errors.ts';
import { renderAccount } from '../../shared/render-account.ts';
import { type FreezeWish, setFrozen } from './set-frozen.ts';

interface Setting {
  readonly id: string;
  readonly change: AccountChange;
  readonly acting: Acting;
  /** Whether it is to be frozen, or not any more. */
  readonly wish?: FreezeWish;
}

/**
 * Sets what is given of an account and leaves the rest; with its audit entry, in one database transaction.
 * @param from the address of whoever asks; null for an operator, who comes by no network
 * @returns the account as it is then, unless there is none
 * @throws PurserError 403 where the plan has no allowlist, or the freeze is the operator's; 400 for one that would shut out whoever asks
 */
export function setAccount(
  pool: Pool,
  { from, ...setting }: Setting & { change: Omit<AccountChange, 'plan'>; from: string | null },
): Promise<AccountRow | undefined> {
  const networks = setting.change.ip_allowlist ?? [];
  return change(pool, setting, {
    action: 'account.updated',
    judge(account) {
      if (networks.length === 0) return;
      if (!plansWithAllowlist.includes(account.plan)) throw withoutAllowlist(account);
      if (from !== null && !isInNetworks({ address: from, networks })) throw shutOut(from);
    },
  });
}

/** Puts an account on a plan, or gives it limits of its own; otherwise as `setAccount`. */
export function setPlan(pool: Pool, setting: Setting): Promise<AccountRow | undefined> {
  return change(pool, setting, { action: 'account.plan_changed', judge: () => {} });
}

function change(
  pool: Pool,
  { id, change, acting, wish = {} }: Setting,
  {
    action,
    judge,
  }: {
    action: 'account.updated' | 'account.plan_changed';
    /** Refuses what this account may not be. */
    judge: (account: AccountRow) => void;
  },
): Promise<AccountRow | undefined> {
  return inTransaction(pool, async (db) => {
    await setFrozen(db, { subject: { scope: 'account', accountId: id }, wish, acting });
    const before = await lockAccount(db, { id });
    if (!before) return undefined;
    judge(before);
    const after = (await updateAccount(db, { id, change }))!;
    const changes = { before: renderAccount(before), after: renderAccount(after) };
    if (!isDeepStrictEqual(changes.before, changes.after))
      await insertAudit(db, {
        accountId: id,
        action,
        acting,
        resourceType: 'account',
        resourceId: id,
        result: 'success',
        changes,
      });
    return after;
  });
}

function withoutAllowlist({ plan }: AccountRow): PurserError {
  return new PurserError(
    'insufficient_permissions',
    `ip_allowlist is for the plans ${plansWithAllowlist.join(' and ')}; this account has ${plan}.`,
    { param: 'ip_allowlist' },
  );
}

function shutOut(address: string): PurserError {
  const seen = address === '' ? 'an unknown address' : address;
  const message = `ip_allowlist would shut you out: you come from ${seen}, which is in none of its networks. Add it.`;
  return new PurserError('invalid_request', message, { param: 'ip_allowlist' });
}
