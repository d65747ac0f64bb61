/** Every kind of event; decisions, section 8. */
export const eventTypes = [
  'payment.pending',
  'payment.completed',
  'payment.failed',
  'policy.violated',
  'approval.requested',
  'approval.approved',
  'approval.rejected',
  'approval.expired',
  'agent.created',
  'agent.status_changed',
  'agent.low_gas',
  'agent.frozen',
  'agent.unfrozen',
  'account.frozen',
  'account.unfrozen',
  'x402.session.created',
  'x402.session.exhausted',
  'x402.session.expired',
  'x402.session.deleted',
  'x402.payment.completed',
  'x402.payment.failed',
  'webhook.disabled',
  'webhook.test',
] as const;

export type EventType = (typeof eventTypes)[number];

export type EventResource =
  | 'transaction'
  | 'approval'
  | 'account'
  | 'agent'
  | 'x402_session'
  | 'x402_payment'
  | 'webhook';
