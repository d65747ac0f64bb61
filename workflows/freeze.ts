import {
  ActivityFailure,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  isCancellation,
  log,
  setCurrentDetails,
  setHandler,
} from '@temporalio/workflow';
import { describeFreezeProgress, type FreezeProgress, signersToFreeze } from '../shared/domain/freeze-progress.ts';
import { messageNames } from '../shared/temporal.ts';
import { markFreezeTold, readFreezeOrder, tellSigners, wakeThawed } from './proxies.ts';

/** How long a signer that did not answer is left alone; doubled each time. */
const pauseMs = 500;
const longestPauseMs = 15_000;
/** Words that one run tells: each holds everything that is frozen, and a history must not grow for ever. */
const roundsOfRun = 20;

const lookAgain = defineSignal(messageNames.lookAgain);
const progressQuery = defineQuery<FreezeProgress>(messageNames.freezeProgress);

/**
 * Tells the three signers what is frozen, until all of them have confirmed the newest word. Whoever changes what is frozen
 * starts it or tells it to look again; a signer that is away hears it when it is back.
 */
export async function freeze(lastPauseMs = 0): Promise<FreezeProgress> {
  let progress: FreezeProgress = { version: 0, confirmed: [], missing: [] };
  let isChanged = false;
  setHandler(progressQuery, () => progress);
  setHandler(lookAgain, () => {
    isChanged = true;
  });

  let pause = lastPauseMs;
  let wokenFor: number | undefined;
  for (let rounds = 0; rounds < roundsOfRun; rounds += 1) {
    isChanged = false;
    const order = await readFreezeOrder();
    if (order.version !== progress.version) progress = { version: order.version, confirmed: [], missing: [] };
    progress = (await told(order)) ?? progress;
    setCurrentDetails(describeFreezeProgress(progress));
    // What two of them let go can be signed again.
    if (progress.confirmed.length >= signersToFreeze && wokenFor !== order.version) {
      wokenFor = order.version;
      // Thousands may have waited: a freeze that comes meanwhile must not.
      await Promise.race([wake(), condition(() => isChanged)]);
    }
    if (progress.missing.length === 0 && progress.confirmed.length > 0) {
      await markFreezeTold(order.version);
      if (!isChanged) return progress;
      pause = 0;
      continue;
    }
    pause = Math.min(Math.max(pauseMs, pause * 2), longestPauseMs);
    if (await condition(() => isChanged, pause)) pause = 0;
  }
  return continueAsNew<typeof freeze>(pause);
}

/** @returns undefined where no worker of the signers' queue was there */
async function told(order: Awaited<ReturnType<typeof readFreezeOrder>>): Promise<FreezeProgress | undefined> {
  try {
    return await tellSigners(order);
  } catch (error) {
    if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
    log.warn('nobody tells the signers what is frozen', { version: order.version, error: String(error.cause) });
    return undefined;
  }
}

/** Where nobody is told, payments look by themselves after a while. */
async function wake(): Promise<void> {
  try {
    await wakeThawed();
  } catch (error) {
    if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
    log.warn('payments that waited were not told', { error: String(error.cause) });
  }
}
