// Every type of policy under its name on the wire: a further one is a file beside this one, and a line here.
export { spendingLimit as spending_limit } from './spending-limit.ts';
