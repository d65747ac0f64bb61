/** Where a payment stands between its decision and its end, as an operator sees it. */
export type Stage = 'policy' | 'prepare' | 'slot' | 'sign' | 'fault' | 'broadcast' | 'watch';

const words: Readonly<Record<Stage, string>> = {
  policy: 'The policies are judging the payment.',
  prepare: 'Reading balance, gas and fees from the chain.',
  slot: 'Waiting for a nonce: as many payments of this wallet as allowed are in flight.',
  sign: 'Waiting for two of the three signers.',
  fault: 'A signer is at fault. Signing is tried again in a minute; look at the signers now.',
  broadcast: 'Signed. The bytes are being stored and sent.',
  watch: 'Sent. Waiting until the chain has included it deep enough.',
};

export function describeStage(stage: Stage): string {
  return words[stage];
}

/** How long to wait for the block watcher before asking the chain oneself: after bytes were sent well, */
export const usualWatchMs = 30_000;
/** and where it is not known how they fared. */
export const doubtfulWatchMs = 2_000;
const longestWatchMs = 600_000;

/** The next such wait: doubles up to ten minutes. @param lastMs 0 after a look that did not wait */
export function nextWatchMs(lastMs: number): number {
  return Math.min(Math.max(lastMs * 2, doubtfulWatchMs), longestWatchMs);
}
