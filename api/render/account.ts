import type { AccountRow } from '../../shared/db/accounts.ts';
import { type Counted, countPresent } from '../../shared/db/plan-counts.ts';
import type { Queryable } from '../../shared/db/pool.ts';
import { planCounts } from '../../shared/domain/plans.ts';
import { renderAccount } from '../../shared/render-account.ts';

/** An account as on the wire, with what it has of everything that plans limit by number. */
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
  return { ...settings, counts, created_at };
}
