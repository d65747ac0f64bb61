/** Keys that are named when they could not be refreshed. */
const maxNamed = 20;

/** How far a refresh of many keys has come. JSON-safe: it is handed on from run to run. */
export interface RefreshProgress {
  /** Shares made before this instant, in ms, are due: the same from the first run to the last. */
  readonly olderThanMs: number;
  /** The last key that was looked at; empty before the first. */
  readonly after: string;
  readonly refreshed: number;
  readonly failed: number;
  /** Some of those that failed, each with why. */
  readonly reasons: readonly string[];
  /** Keys that failed one after another, up to now. */
  readonly failedInARow: number;
}

export function startOfRefresh({ olderThanMs }: { olderThanMs: number }): RefreshProgress {
  return { olderThanMs, after: '', refreshed: 0, failed: 0, reasons: [], failedInARow: 0 };
}

/** Counts one key more. @param failure why it was not refreshed; undefined when it was */
export function countKey(
  progress: RefreshProgress,
  { keyId, failure }: { keyId: string; failure: string | undefined },
): RefreshProgress {
  if (failure === undefined) return { ...progress, after: keyId, refreshed: progress.refreshed + 1, failedInARow: 0 };
  return {
    ...progress,
    after: keyId,
    failed: progress.failed + 1,
    reasons: [...progress.reasons, `${keyId}: ${failure}`].slice(0, maxNamed),
    failedInARow: progress.failedInARow + 1,
  };
}

/**
 * A refresh in words, for the operator.
 * @param left keys of this batch that were not tried yet
 * @param forOperator keys that are not tried: a signer of theirs is banned, or has no share
 */
export function describeRefresh(
  { refreshed, failed, reasons }: RefreshProgress,
  { left, forOperator }: { left: number; forOperator: number },
): string {
  const told: readonly (readonly [count: number, sentence: string])[] = [
    [left, `${left} to go.`],
    [failed, `${failed} could not be refreshed.`],
    [forOperator, `${forOperator} are left to an operator: a signer of theirs is banned, or has no share.`],
  ];
  const sentences = told.filter(([count]) => count > 0).map(([, sentence]) => sentence);
  return [[`Refreshed ${refreshed} account keys.`, ...sentences].join(' '), ...reasons.map((each) => `- ${each}`)].join(
    '\n',
  );
}
