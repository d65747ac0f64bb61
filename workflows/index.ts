// The worker's bundle: every workflow by the name under which it is started.
export { accountKey, spareKeys } from './account-key.ts';
export { approvalMail } from './approval-mail.ts';
export { balances, quote } from './chain-questions.ts';
export { checkLimits } from './check-limits.ts';
export { freeze } from './freeze.ts';
export { maintenance } from './maintenance.ts';
export { readiness } from './readiness.ts';
export { reconcile } from './reconcile.ts';
export { refreshKeys } from './refresh-keys.ts';
export { restore } from './restore.ts';
export { transaction } from './transaction.ts';
export { watchGas } from './watch-gas.ts';
export { signerAlertMail, watchSigners } from './watch-signers.ts';
export { webhookDelivery } from './webhook-delivery.ts';
export { x402Payment } from './x402-payment.ts';
export { x402Session } from './x402-session.ts';
