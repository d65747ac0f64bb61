import { setCurrentDetails } from '@temporalio/workflow';
import { describeMonths } from '../shared/domain/months.ts';
import { keepMonths, resealSecrets } from './proxies.ts';

/**
 * One run of the daily schedule: what grows for ever has room for the months to come, and loses those that are too old; and
 * no secret of a webhook stays sealed to a key that is to be put away.
 */
export async function maintenance() {
  const months = await keepMonths();
  setCurrentDetails(describeMonths(months));
  const secrets = await resealSecrets();
  setCurrentDetails(`${describeMonths(months)}\n${describeSecrets(secrets)}`);
  return { months, secrets };
}

function describeSecrets({ resealed, unopened }: Awaited<ReturnType<typeof resealSecrets>>): string {
  const lost = unopened === 0 ? '' : ` The secrets of ${unopened} webhooks open by no key that the worker has.`;
  return `${resealed} secrets of webhooks were sealed to the current key.${lost}`;
}
