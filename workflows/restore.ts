import {
  ApplicationFailure,
  continueAsNew,
  defineQuery,
  setCurrentDetails,
  setHandler,
  sleep,
} from '@temporalio/workflow';
import type { LostWallets } from '../activities/find-lost-wallets.ts';
import { addFindings, emptyReport, type RestoreFinding, type RestoreReport } from '../shared/domain/restore.ts';
import { messageNames, type RestoreInput, type RestoreResult } from '../shared/temporal.ts';
import {
  countEnds,
  endLost,
  endRuns,
  findLostWallets,
  findUnsure,
  listSigned,
  readSigned,
  readStanding,
  restorePayments,
  resumePayments,
  secureKeys,
} from './proxies.ts';

/**
 * How much further back than the newest signature that the database knows: clocks differ, and signing takes its time. At
 * least two days back from now in any case.
 */
const marginMs = 60 * 60 * 1000;
const leastMs = 48 * 60 * 60 * 1000;
/** Payments that are listed at once, and that are read and stored at once. */
const listed = 5_000;
const batch = 20;
/** Lists of one run: a history must not grow for ever. */
const listsOfRun = 1;
/** All three answered when it began; one that restarts, or a busy machine, gets its time. */
const freezeWaitMs = 180_000;
const pauseMs = 500;
/** How long it is waited until the chain has said what became of the payments that were stored again. */
const endsWaitMs = 15_000;
/** Payments that are waited for. */
const followedMax = 1_000;
/** Steps in which the chains are asked for wallets that are lost, each of a minute: somebody waits. */
const walletSteps = 10;

const progressQuery = defineQuery<string>(messageNames.restoreProgress);

/**
 * Compares the database with signers and Temporal after one of them was restored, and mends what can be mended, while
 * nothing new is signed. Every step can be repeated: interrupted anywhere, it is started again.
 */
export async function restore({ dryRun, isKept = false, sinceMs, progress }: RestoreInput): Promise<RestoreResult> {
  let words = 'Begins.';
  const tell = (text: string) => {
    words = text;
    setCurrentDetails(text);
  };
  setHandler(progressQuery, () => words);

  const newestMs = dryRun ? (await readStanding()).newestMs : await frozen(tell);
  const least = Math.max(0, Math.min((newestMs ?? 0) - marginMs, Date.now() - leastMs));
  const since = progress?.sinceMs ?? Math.min(sinceMs ?? least, least);
  let report: RestoreReport = progress?.report ?? emptyReport;
  let compared = progress?.compared ?? 0;
  let restored = progress?.restored ?? [];
  let after = progress?.after ?? null;
  const lostFromMs = progress?.lostFromMs ?? newestMs;

  for (let lists = 1; ; lists += 1) {
    const { payments, next } = await listSigned({ sinceMs: since, after, limit: listed });
    const ids = await findUnsure(payments);
    compared += payments.length - ids.length;
    for (let start = 0; start < ids.length; start += batch) {
      const part = ids.slice(start, start + batch);
      const found = await restorePayments({ ...(await readSigned(part)), dryRun });
      report = addFindings(report, found);
      restored = [...restored, ...storedIn(found)].slice(0, followedMax);
      compared += part.length;
      tell(`Compared ${compared} payments that the signers signed since ${new Date(since).toISOString()}.`);
    }
    if (next === null) break;
    after = next;
    if (lists < listsOfRun) continue;
    const so = { sinceMs: since, lostFromMs, report, compared, restored, after };
    await continueAsNew<typeof restore>({ dryRun, isKept, progress: so });
  }

  tell('Looks for payments that had ended, and for runs that know more than the database.');
  report = addFindings(report, await endLost({ dryRun }));
  report = addFindings(report, await endRuns({ dryRun }));
  if (!isKept) {
    tell('Asks the chains for wallets that hold money and have no agent here.');
    report = addFindings(report, await lostWallets({ dryRun }));
    // Last: what was found is no part of what is passed over.
    report = addFindings(report, await secureKeys({ dryRun }));
  }
  if (!dryRun) await resumePayments();
  report = addFindings(report, lossesOf(report, { lostFromMs, isKept }));
  const ends = dryRun ? {} : await awaitEnds(restored, tell);
  return { dryRun, sinceMs: since, lostFromMs, compared, ends, report };
}

/** Wallets that were lost and never paid: only the chains know whether anybody has sent them money. */
async function lostWallets({ dryRun }: { dryRun: boolean }): Promise<RestoreFinding[]> {
  const findings: RestoreFinding[] = [];
  let [after, unread]: [string | null, readonly string[]] = ['', []];
  for (let steps = 0; after !== null && steps < walletSteps; steps += 1) {
    const found: LostWallets = await findLostWallets({ dryRun, after, leaveOut: unread });
    findings.push(...found.findings);
    [after, unread] = [found.next, found.unread];
  }
  const chains = unread.map((chain) => `${chain} could not be read.`);
  if (after !== null) chains.push(`The accounts' keys behind ${after} were not come to in time.`);
  if (chains.length > 0) {
    const detail = `Wallets that were lost, never paid and hold money may be missing here: ${chains.join(' ')}`;
    findings.push({ what: 'wallets_unread', id: '', detail });
  }
  return findings;
}

/** Waits until nothing new is signed anywhere. @returns when the newest signature that the database knows was made */
async function frozen(tell: (text: string) => void): Promise<number | null> {
  for (let waitedMs = 0; ; waitedMs += pauseMs) {
    const { frozen: isFrozen, told, newestMs } = await readStanding();
    if (!isFrozen)
      throw ApplicationFailure.nonRetryable(
        'The installation is not frozen: freeze it first (npm run admin -- freeze all).',
      );
    if (told) return newestMs;
    if (waitedMs >= freezeWaitMs)
      throw ApplicationFailure.nonRetryable(
        'Not all three signers have confirmed that they are frozen: bring them back (npm run signers -- status), then reconcile again.',
      );
    tell('Waits until the three signers have confirmed that they are frozen.');
    await sleep(pauseMs);
  }
}

/** What nobody can mend: of settings nobody knows any more whether they were changed. */
function lossesOf(
  { counts }: RestoreReport,
  { lostFromMs, isKept }: { lostFromMs: number | null; isKept: boolean },
): RestoreFinding[] {
  const recreated = counts.payment_recreated ?? 0;
  const isLost =
    recreated + (counts.agent_recreated ?? 0) + (counts.request_lost ?? 0) + (counts.payment_ended ?? 0) > 0;
  if (isKept && !isLost) return [];
  const newest =
    lostFromMs === null ? '' : ` (the newest payment it knows as signed is of ${new Date(lostFromMs).toISOString()})`;
  const repeats = `The idempotency keys of ${recreated} payments are lost: a client that repeats such a request, because it has no answer, pays a second time. Give the clients the list of payment_recreated before they go on.`;
  const settings = `What else was changed since the database was backed up${newest} is lost: agents, policies, members, approvals, webhooks. Accounts and agents that were frozen since then are not frozen any more: freeze them again before you lift the freeze of all. API keys that were deleted work again, people who were removed can sign in again, and so can sessions that were ended: npm run admin -- revoke-all where in doubt. Limits that were lowered are as high as before.`;
  const settingsLost = { what: 'settings_lost' as const, id: '', detail: settings };
  return recreated === 0 ? [settingsLost] : [{ what: 'repeat_unknown', id: '', detail: repeats }, settingsLost];
}

function storedIn(found: readonly RestoreFinding[]): string[] {
  return found.filter(({ what }) => what === 'payment_recreated' || what === 'payment_completed').map(({ id }) => id);
}

async function awaitEnds(ids: readonly string[], tell: (text: string) => void): Promise<Record<string, number>> {
  for (let waitedMs = 0; ids.length > 0; waitedMs += pauseMs) {
    const ends = await countEnds(ids);
    const open = ends.pending ?? 0;
    if (open === 0 || waitedMs >= endsWaitMs) return ends;
    tell(`Waits until the chain says what became of ${open} payments.`);
    await sleep(pauseMs);
  }
  return {};
}
