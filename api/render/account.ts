import type { AccountRow } from '../../shared/db/accounts.ts';
import { currentFreeze } from '../../shared/db/freezes.ts';
import { type Counted, countPresent } from '../../shared/db/plan-counts.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import { planCounts } from '../../shared/domain/plans.ts';
import { renderAccount } from '../../shared/render-account.ts';
import { renderFreeze } from '../../shared/render-freeze.ts';

/** An account as on the wire, with whether it is frozen, and what it has of everything that plans limit by number. */
export async function showAccount(db: Queryable, row: AccountRow) {
  const { created_at, ...settings } = renderAccount(row);
  const count = async (kind: Counted) => ({
    used: await countPresent(db, { accountId: row.id, kind }),
    limit: planCounts[row.plan][kind],
  });
  const counts = {
    agents: await count('agents'),
    webhooks: await count('webhooks'),
    x402_sessions: await count('x402Sessions'),
  };
  const freeze = await currentFreeze(db, { accountId: row.id });
  const frozen = { frozen: freeze !== undefined, freeze: freeze ? renderFreeze(freeze) : null };
  return { ...settings, ...frozen, counts, created_at };
}
