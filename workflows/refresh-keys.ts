import {
  ActivityFailure,
  ApplicationFailure,
  continueAsNew,
  isCancellation,
  setCurrentDetails,
} from '@temporalio/workflow';
import { countKey, describeRefresh, type RefreshProgress, startOfRefresh } from '../shared/domain/key-refresh.ts';
import type { RefreshKeysInput } from '../shared/temporal.ts';
import { listDueKeys, noteKeyRefresh, refreshKey } from './proxies.ts';

/** Keys of one run; a run with more goes on in another one, so that no history becomes long. */
const maxKeysOfARun = 200;
/** So many keys that fail one after another have a common cause: the next run of the schedule goes on. */
const maxFailedInARow = 3;
const dayMs = 86_400_000;

/**
 * Has the three signers make new shares of account keys, one key after another; addresses stay. A run that ends early,
 * however it ends, leaves every key usable, and the next one goes on where it is needed.
 * @throws ApplicationFailure `RefreshFailed` when a key could not be refreshed, after all others were tried; at once when
 *   a signer is at fault, which may be an attack, and after several failures in a row
 */
export async function refreshKeys(input: RefreshKeysInput = {}): Promise<RefreshProgress> {
  const { keyId, complete = false, olderThanDays = 0 } = input;
  let progress = input.progress ?? startOfRefresh({ olderThanMs: Date.now() - olderThanDays * dayMs });
  const { olderThanMs, after } = progress;
  const { keyIds, forOperator } = await listDueKeys({
    ...(keyId !== undefined && { keyId }),
    olderThanMs,
    after,
    limit: maxKeysOfARun,
  });
  let left = keyIds.length;
  const describe = () => describeRefresh(progress, { left, forOperator });
  setCurrentDetails(describe());
  let isFault = false;
  for (const each of keyIds) {
    if (isFault || progress.failedInARow >= maxFailedInARow) break;
    const outcome = await refreshOne({ keyId: each, complete, olderThanMs });
    progress = countKey(progress, { keyId: each, failure: outcome?.failure });
    isFault = outcome?.isFault ?? false;
    left -= 1;
    setCurrentDetails(describe());
  }
  if (left === 0 && !isFault && keyIds.length === maxKeysOfARun)
    return continueAsNew<typeof refreshKeys>({ ...input, progress });
  if (progress.failed > 0) throw ApplicationFailure.nonRetryable(describe(), 'RefreshFailed');
  return progress;
}

/** @returns why the key was not refreshed, if it was not */
async function refreshOne(key: {
  keyId: string;
  complete: boolean;
  olderThanMs: number;
}): Promise<{ failure: string; isFault: boolean } | undefined> {
  try {
    const { epoch } = await refreshKey(key);
    await noteKeyRefresh({ keyId: key.keyId, epoch });
    return undefined;
  } catch (error) {
    if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
    const { cause } = error;
    return {
      failure: cause?.message ?? error.message,
      isFault: cause instanceof ApplicationFailure && cause.type === 'SignerFault',
    };
  }
}
