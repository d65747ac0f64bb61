import { setCurrentDetails } from '@temporalio/workflow';
import { describeReconcile } from '../shared/domain/reconcile.ts';
import { startMissing } from './proxies.ts';

/** One run of the schedule: what was left undone is done, and the operator reads what that was. */
export async function reconcile() {
  const result = await startMissing();
  setCurrentDetails(describeReconcile(result));
  return result;
}
