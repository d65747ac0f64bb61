import { proxyActivities, setCurrentDetails } from '@temporalio/workflow';
import type { WalletActivities } from '../activities/wallet.ts';

const { startMissing } = proxyActivities<WalletActivities>({
  startToCloseTimeout: '1m',
  // An answer that got lost must not hold up the runs to come: the schedule starts no second one beside it.
  heartbeatTimeout: '5s',
  retry: { initialInterval: '1s', maximumAttempts: 3 },
});

/** One run of the schedule: every open payment has a workflow afterwards. */
export async function reconcile() {
  const result = await startMissing();
  setCurrentDetails(`Looked at ${result.visited} open payments, started ${result.started} missing workflows.`);
  return result;
}
