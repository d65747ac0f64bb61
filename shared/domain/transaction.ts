/** Where a payment stands between its decision and its end, as an operator sees it. */
export type Stage =
  | 'policy'
  | 'prepare'
  | 'funds'
  | 'approval'
  | 'slot'
  | 'frozen'
  | 'sign'
  | 'fault'
  | 'broadcast'
  | 'watch'
  | 'replace'
  | 'stamp'
  | 'outdated'
  | 'settlement'
  | 'session';

const words: Readonly<Record<Stage, string>> = {
  policy: 'The policies are judging the payment.',
  prepare: 'Reading balance and fees from the chain.',
  funds: 'Waiting for money to pay the fee with; the transaction says how much.',
  approval: 'Waiting until a person approves, or the time for it has passed.',
  slot: 'Waiting for its turn: others of this wallet are in flight, as many as allowed or with the coins that it needs.',
  frozen: 'Frozen. It goes on when that is lifted: see npm run admin -- frozen.',
  sign: 'Waiting for two of the three signers.',
  fault: 'A signer is at fault. Signing is tried again in a minute; look at the signers now.',
  broadcast: 'Signed. The bytes are being stored and sent.',
  watch: 'Sent. Waiting until the chain has included it deep enough.',
  replace: 'A transaction with higher fees, or one that pays nobody, is being signed for the same place.',
  stamp: 'The policies are judging the payment before its authorisation is signed.',
  outdated: 'The authorisation was not handed out. Waiting until the chain shows that nobody can use it any more.',
  settlement: 'The authorisation was handed out. Waiting until the chain shows it used, or over.',
  session: 'Waiting until the time of the session is over, or it is deleted.',
};

export function describeStage(stage: Stage): string {
  return words[stage];
}

/** For how long a payment is tried before it is given up. */
export interface Patience {
  /** Without money for it, in milliseconds. */
  readonly fundingWaitMs: number;
  /** Without any step forward, in milliseconds. */
  readonly giveUpMs: number;
}

/** How often a wallet is looked into that lacks money, at least. */
export const longestFundingPauseMs = 15_000;

/** How long to wait for a word that should come before looking oneself: where all went well, */
export const usualWatchMs = 30_000;
/** and where it is not known how they fared. */
export const doubtfulWatchMs = 2_000;
const shortestQuietMs = 2_000;
const longestQuietMs = 600_000;

/**
 * How long to go on waiting for a word after one that did not come: doubles, from two seconds to ten minutes.
 * @param lastMs the wait before; 0 for none
 */
export function nextQuietMs(lastMs: number): number {
  return Math.min(Math.max(lastMs * 2, shortestQuietMs), longestQuietMs);
}
