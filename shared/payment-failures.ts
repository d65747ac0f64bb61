import { approvalsOfPayment } from './db/approvals.ts';
import type { Queryable } from './db/pool.ts';
import { type Decision, explainViolation } from './domain/policy/engine.ts';
import type { PaymentFacts } from './payment.ts';

// Why a payment of either kind fails that is not signed yet.

export function denialFailure(decision: Decision) {
  return { code: 'policy_violation', message: explainViolation(decision.violations[0]!) } as const;
}

export function inactiveFailure({ agent_id }: PaymentFacts) {
  return {
    code: 'agent_inactive',
    message: `Agent ${agent_id} is inactive: it sends nothing until it is active again.`,
  } as const;
}

/** That somebody who was asked has said no; it stands whatever else is asked. */
export async function findRejection(
  db: Queryable,
  { id }: PaymentFacts,
): Promise<{ code: 'approval_rejected'; message: string } | undefined> {
  const approvals = await approvalsOfPayment(db, { paymentId: id });
  const rejection = approvals.find(({ status }) => status === 'rejected')?.decisions.at(-1);
  if (!rejection) return undefined;
  const because = rejection.note === null ? '.' : `: ${rejection.note}`;
  return { code: 'approval_rejected', message: `${rejection.approver} rejected the payment${because}` };
}
