import type { FreezeScope } from './freeze.ts';

/** A freeze as far as people are told of it. */
interface ToldFreeze {
  readonly scope: FreezeScope;
  readonly account_id: string | null;
  readonly agent_id: string | null;
  readonly reason: string;
  readonly frozen_by: string;
  readonly created_at: Date;
}

/** What is frozen, by whom, since when and why, as one sentence. */
export function describeFreeze({ scope, account_id, agent_id, reason, frozen_by, created_at }: ToldFreeze): string {
  const subject = { installation: 'This installation', account: `Account ${account_id}`, agent: `Agent ${agent_id}` };
  const who = frozen_by === 'operator' ? 'its operator' : frozen_by;
  return `${subject[scope]} was frozen by ${who} at ${created_at.toISOString()} (${reason}): nothing new is signed until that is lifted.`;
}
