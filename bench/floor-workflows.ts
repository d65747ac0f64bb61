// What Temporal alone costs: workflows that do nothing but wait for activities that do nothing.
import { proxyActivities } from '@temporalio/workflow';

/** Activities are on a queue of their own, as the service's are, so that none is handed over without the server. */
const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({
  taskQueue: 'bench-floor-activities',
  startToCloseTimeout: '10s',
});

/** One remote activity. */
export async function oneActivity(): Promise<void> {
  await nothing();
}

/** Three remote activities, one after the other, as a payment has prepare, sign and broadcast. */
export async function threeActivities(): Promise<void> {
  await nothing();
  await nothing();
  await nothing();
}
