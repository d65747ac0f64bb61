import { setCurrentDetails } from '@temporalio/workflow';
import { startMissing } from './proxies.ts';

/** One run of the schedule: every open payment has a workflow afterwards, that knows of its answer. */
export async function reconcile() {
  const result = await startMissing();
  setCurrentDetails(
    `Looked at ${result.visited} open payments, started ${result.started} missing workflows, had ${result.reminded} look again for an answer.`,
  );
  return result;
}
