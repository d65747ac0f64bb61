import type { AccountRow } from './db/accounts.ts';
import { requestLimitsOf } from './domain/plans.ts';

/** An account as it is set, as on the wire and in the audit log. */
export function renderAccount(row: AccountRow) {
  const own = {
    perMinute: row.requests_per_minute,
    perDay: row.requests_per_day,
    concurrent: row.concurrent_requests,
  };
  const limits = requestLimitsOf({ plan: row.plan, own });
  return {
    id: row.id,
    name: row.name,
    plan: row.plan,
    limits: {
      requests_per_minute: limits.perMinute,
      requests_per_day: limits.perDay,
      concurrent_requests: limits.concurrent,
    },
    ip_allowlist: row.ip_allowlist,
    default_deny: row.default_deny,
    policy_writes: row.policy_writes,
    owner_email: row.owner_email,
    gas_top_ups: row.gas_top_ups,
    owner_key: row.owner_key,
    created_at: row.created_at.toISOString(),
  };
}
