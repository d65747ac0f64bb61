import { readFreezes } from '../shared/db/freezes.ts';
import { startFreeze } from '../shared/freeze-start.ts';
import { tellAccounts } from '../shared/tell-accounts.ts';
import type { VisitDependencies } from './visit-payments.ts';
import { wakeThawed } from './wake-thawed.ts';

/**
 * Does what is left undone of changes of what is frozen: whoever made one may have died right after. Signers are told first,
 * then accounts, then payments that waited.
 */
export async function settleFreezes(deps: VisitDependencies): Promise<void> {
  const { version, told } = await readFreezes(deps.pool);
  if (told < version) await startFreeze(deps.client);
  await tellAccounts(deps.pool);
  await wakeThawed(deps);
}
