import { setCurrentDetails } from '@temporalio/workflow';
import { describeMonths } from '../shared/domain/months.ts';
import { keepMonths } from './proxies.ts';

/** One run of the daily schedule: what grows for ever has room for the months to come, and loses those that are too old. */
export async function maintenance() {
  const months = await keepMonths();
  setCurrentDetails(describeMonths(months));
  return { months };
}
