import {
  type AlertKind,
  alertKinds,
  type PartyNumber,
  type SignerFinding,
  type SignerLook,
} from '../shared/domain/signer-alerts.ts';
import { type HeldKey, type KeyView, keysOf, middleOfTimes, newestActive } from './key-view.ts';
import type { SignerReport, SilentSigner } from './signer-report.ts';

/** Findings of one kind about one signer: a look stays small when a signer has lost all it had, or tells tales. */
const maxFindingsOfAKind = 50;
/** An installation keeps two at most, of which one is on its way in or out. */
const maxEpochsNamed = 3;
/** Shares may be so many times as old as the schedule wants them before somebody is told. */
const overdueAfter = 2;
const dayMs = 86_400_000;
/** Signers bring theirs up to date each minute. */
const backupOldAfterMs = 10 * 60_000;

const isSilent = (report: SignerReport | SilentSigner): report is SilentSigner => 'error' in report;

/**
 * Says what is wrong with the signers, going by what each of them says; one of them may lie. Pure.
 * @param reports one of each of the three
 * @param refreshDays how old shares are to become; 0: nobody refreshes them by a schedule
 * @param wantsBackups whether a signer without a target for its backup is wrong
 */
export function judgeSigners(
  reports: readonly (SignerReport | SilentSigner)[],
  { refreshDays, wantsBackups, now }: { refreshDays: number; wantsBackups: boolean; now: Date },
): SignerLook {
  const silent = reports.filter(isSilent);
  const answering = reports.filter((report): report is SignerReport => !isSilent(report));
  const findings = createFindings();
  for (const { party, error } of silent)
    findings.add({ kind: 'signer_unreachable', party, keyId: null, detail: error });
  for (const finding of [...bansOf(answering), ...backupsOf(answering, { wantsBackups, now }), ...limitsOf(answering)])
    findings.add(finding);
  const keys = keysOf(answering);
  for (const key of keys) for (const finding of judgeKey(key, { refreshDays, now })) findings.add(finding);
  // Whoever is silent may know of what nobody else knows of.
  const unseen: AlertKind[] = silent.length > 0 ? alertKinds.filter((kind) => !seenOfSilent.has(kind)) : [];
  return {
    findings: findings.list(),
    unsure: [...new Set([...unseen, ...findings.cut()])],
    answering: answering.length,
    keys: keys.length,
    ...lowestFreeze(answering),
  };
}

/** One that was restored, or made anew, may have lost what it was told. */
function lowestFreeze(answering: readonly SignerReport[]): Pick<SignerLook, 'freezeVersion'> {
  const versions = answering.flatMap(({ frozen }) => frozen?.version ?? []);
  return versions.length === 0 ? {} : { freezeVersion: Math.min(...versions) };
}

/** What is known also of a signer that says nothing. */
const seenOfSilent: ReadonlySet<AlertKind> = new Set(['signer_unreachable', 'signers_unwatched']);

/** Collects each finding once, and only so many of a kind about one signer. */
function createFindings() {
  const found = new Map<string, SignerFinding>();
  const counts = new Map<string, number>();
  const cut = new Set<AlertKind>();
  return {
    list: () => [...found.values()],
    /** Kinds of which there is more than the list holds. */
    cut: () => cut,
    add(finding: SignerFinding) {
      const { kind, party, keyId, detail } = finding;
      const subject = `${kind} ${party} ${keyId}`;
      const before = found.get(subject);
      const group = `${kind} ${party}`;
      const count = counts.get(group) ?? 0;
      if (before) found.set(subject, { ...before, detail: `${before.detail}; ${detail}` });
      else if (count === maxFindingsOfAKind) cut.add(kind);
      else {
        counts.set(group, count + 1);
        found.set(subject, finding);
      }
    },
  };
}

function bansOf(answering: readonly SignerReport[]): SignerFinding[] {
  return answering.flatMap(({ party: by, bans }) => {
    // Each once, whatever is listed.
    const told = new Map(bans.map((ban) => [`${ban.party} ${ban.keyId}`, ban]));
    return [...told.values()].map(({ party, keyId, reason }) => ({
      ...{ kind: 'signer_banned' as const, party, keyId },
      detail: `signer ${by} does nothing more with it: ${reason}`,
    }));
  });
}

function backupsOf(
  answering: readonly SignerReport[],
  { wantsBackups, now }: { wantsBackups: boolean; now: Date },
): SignerFinding[] {
  return answering.flatMap(({ party, backup }) => {
    const why = backup ? faultOf(backup, now) : backup === null && wantsBackups ? 'it has no target for one' : null;
    return why === null ? [] : { kind: 'backup_missing' as const, party, keyId: null, detail: why };
  });
}

function faultOf({ error, currentAtMs }: NonNullable<SignerReport['backup']>, now: Date): string | null {
  if (error !== null) return error;
  if (currentAtMs === null) return 'it has not been written since the signer has started';
  return now.getTime() - currentAtMs > backupOldAfterMs
    ? `it last held everything at ${new Date(currentAtMs).toISOString()}`
    : null;
}

/** Keys of which some wallet's limits are not of the same version at all that answer; unsettled where one is missing. */
function limitsOf(answering: readonly SignerReport[]): SignerFinding[] {
  const versions = new Map<string, Map<PartyNumber, number>>();
  for (const { party, limits } of answering)
    for (const { keyId, wallet, version } of limits) {
      const subject = JSON.stringify([keyId, wallet]);
      versions.set(subject, (versions.get(subject) ?? new Map()).set(party, version));
    }
  const found = new Map<string, string>();
  for (const [subject, known] of versions) {
    const [keyId, wallet] = JSON.parse(subject) as [string, string];
    if (known.size === answering.length && new Set(known.values()).size === 1) continue;
    const each = answering.map(({ party }) => `signer ${party} has version ${known.get(party) ?? 'none'}`);
    if (!found.has(keyId)) found.set(keyId, `wallet ${wallet}: ${each.join(', ')}`);
  }
  return [...found].map(([keyId, detail]) => ({ kind: 'limits_differ', party: null, keyId, detail }));
}

function judgeKey({ keyId, held }: KeyView, { refreshDays, now }: { refreshDays: number; now: Date }): SignerFinding[] {
  const newest = Math.max(...held.map(newestActive));
  const epochs = held.map((each) => `signer ${each.party} ${epochsInWords(each)}`).join(', ');
  const findings: SignerFinding[] = [];
  const add = (kind: AlertKind, party: PartyNumber | null, detail: string) =>
    findings.push({ kind, party, keyId, detail });

  const behind = held.filter((each) => newestActive(each) < newest);
  for (const { party } of behind) add('key_behind', party, epochs);
  for (const { party, hasRecords } of held)
    if (!hasRecords) add('key_without_records', party, 'what the others recorded meanwhile has not been merged');
  if (behind.length === 0 && held.some((each) => each.epochs.length > 1)) add('refresh_unfinished', null, epochs);

  const madeAtMs = middleOfTimes(held.flatMap((each) => each.epochs.filter(({ epoch }) => epoch === newest)));
  if (refreshDays > 0 && now.getTime() - madeAtMs > overdueAfter * refreshDays * dayMs)
    add('refresh_overdue', null, `its newest shares are of ${new Date(madeAtMs).toISOString()}`);
  return findings;
}

function epochsInWords({ epochs }: HeldKey): string {
  if (epochs.length === 0) return 'has no share';
  const words = epochs
    .slice(-maxEpochsNamed)
    .map(({ epoch, state }) => (state === 'active' ? `${epoch}` : `${epoch} (not in use)`));
  return `has ${words.join(' and ')}`;
}
