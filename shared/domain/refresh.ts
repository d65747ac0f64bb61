/** How long after its use a refresh token still gives its successor: an answer may be lost, and tabs refresh at once. */
export const graceMs = 30_000;

/**
 * What a refresh token is good for.
 * - `rotate`: it is used now, for a successor.
 * - `repeat`: it was used a moment ago; whoever repeats gets the same successor.
 * - `reused`: it was used before that, so somebody has it who should not. Which of the two cannot be told.
 * - `expired`: it was never used, and its time is over.
 */
export function judgeRefresh({
  secondsLeft,
  usedMsAgo,
}: {
  secondsLeft: number;
  usedMsAgo: number | null;
}): 'rotate' | 'repeat' | 'reused' | 'expired' {
  if (usedMsAgo !== null) return usedMsAgo <= graceMs ? 'repeat' : 'reused';
  return secondsLeft > 0 ? 'rotate' : 'expired';
}
