import { ApplicationFailure } from '@temporalio/common';
import type { SignerClient } from '../signer/client.ts';
import { type KeyView, keysOf, middleOfTimes, newestActive } from './key-view.ts';
import { readSignerReport, type SignerReport } from './signer-report.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/** Which keys are asked for. */
export interface DueKeysQuestion {
  /** That key alone, however old its shares are. */
  readonly keyId?: string;
  /** Instant in ms: shares made before it are due. */
  readonly olderThanMs: number;
  /** The last key of the batch before; empty for the first. */
  readonly after: string;
  readonly limit: number;
}

/** A batch of keys, in the order of their ids. */
export interface DueKeys {
  readonly keyIds: readonly string[];
  /** Keys that only an operator can help, of all that there are: a signer of theirs is banned, or has no share. */
  readonly forOperator: number;
}

/**
 * Says whose shares are to be made anew: those that are old, and those of which a refresh was not finished.
 * @throws ApplicationFailure `SignerSilent` unless all three say what they hold: a refresh needs them all
 */
export function createListDueKeys({ signer }: { signer: SignerClient }) {
  return async function listDueKeys({ keyId, olderThanMs, after, limit }: DueKeysQuestion): Promise<DueKeys> {
    const answers = await withHeartbeat(() => signer.status());
    const reports = answers.map(readSignerReport).map((report): SignerReport => {
      if ('error' in report) throw ApplicationFailure.retryable(report.error, 'SignerSilent');
      return report;
    });
    const banned = new Set(reports.flatMap(({ bans }) => bans.map((ban) => ban.keyId)));
    const isForOperator = (key: KeyView) => banned.has(key.keyId) || key.held.some((each) => newestActive(each) === 0);
    const asked = keysOf(reports).filter((key) => keyId === undefined || key.keyId === keyId);
    const due = asked
      .filter((key) => !isForOperator(key) && (keyId !== undefined || isDue(key, olderThanMs)))
      .map((key) => key.keyId)
      .filter((id) => id > after)
      .sort();
    return { keyIds: due.slice(0, limit), forOperator: asked.filter(isForOperator).length };
  };
}

function isDue({ held }: KeyView, olderThanMs: number): boolean {
  const newest = Math.max(...held.map(newestActive));
  const isSettled = held.every(({ epochs }) => epochs.length === 1 && epochs[0]!.epoch === newest);
  const madeAtMs = middleOfTimes(held.flatMap(({ epochs }) => epochs.filter(({ epoch }) => epoch === newest)));
  return !isSettled || madeAtMs < olderThanMs;
}
