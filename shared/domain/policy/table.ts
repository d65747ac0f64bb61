// Every type of policy under its name on the wire: a further one is a file beside this one, and a line here.
export { addressControl as address_control } from './address-control.ts';
export { humanApproval as human_approval } from './human-approval.ts';
export { schedule } from './schedule.ts';
export { spendingLimit as spending_limit } from './spending-limit.ts';
export { tokenControl as token_control } from './token-control.ts';
export { velocityControl as velocity_control } from './velocity-control.ts';
