import { bySystem, insertAudit } from './db/audit.ts';
import { insertEvent } from './db/events.ts';
import type { Queryable } from './db/pool.ts';
import type { Evaluation } from './domain/policy/engine.ts';
import { isX402, type PaymentFacts } from './payment.ts';

/** What was decided and why, for the audit log; what was denied, for the receivers of events. */
export async function noteEvaluation(
  db: Queryable,
  row: PaymentFacts,
  { evaluation: { decision, findings }, stage }: { evaluation: Evaluation; stage: 'first' | 'second' },
): Promise<void> {
  const isDenied = decision.outcome === 'deny';
  const kind = isX402(row.id) ? ('x402_payment' as const) : ('transaction' as const);
  const about = { accountId: row.account_id, agentId: row.agent_id, resourceType: kind, resourceId: row.id };
  await insertAudit(db, {
    ...about,
    action: `${kind}.evaluated`,
    acting: bySystem,
    result: isDenied ? 'denied' : 'success',
    metadata: { stage, outcome: decision.outcome, findings, approvals: decision.approvals },
  });
  if (!isDenied) return;
  const { violations } = decision;
  const payment = isX402(row.id) ? { ledger_id: row.id } : { transaction_id: row.id };
  const data = { ...payment, agent_id: row.agent_id, ...violations[0], violations };
  await insertEvent(db, { ...about, type: 'policy.violated', data });
}
