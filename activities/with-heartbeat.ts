import { cancelled, heartbeat } from '@temporalio/activity';

/** Well below every heartbeat timeout, so that a busy process is not taken for a dead one. */
const beatMs = 1_000;

/**
 * Tells Temporal every second that this process lives: the work of a dead one is repeated soon, of a slow one not.
 * Work that is cancelled, as by the end of its worker's patience when that stops, is waited for no longer, so that
 * another worker repeats it at once.
 * @throws CancelledFailure
 */
export async function withHeartbeat<T>(work: () => Promise<T>): Promise<T> {
  const beat = setInterval(heartbeat, beatMs);
  try {
    return await Promise.race([work(), cancelled()]);
  } finally {
    clearInterval(beat);
  }
}
