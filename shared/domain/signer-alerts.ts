/** A signer, by its number. */
export type PartyNumber = 1 | 2 | 3;

/** What can be wrong with the signers. A closed list: it is stored, logged and switched upon. */
export const alertKinds = [
  /** It broke the protocol inside a message that it signed: may be an attack. */
  'signer_banned',
  /** No answer, or none that can be read. */
  'signer_unreachable',
  /** No worker asks the signers: none serves the queue, or none can. */
  'signers_unwatched',
  /** A signer has no share of a key, or an older one than the others. */
  'key_behind',
  /** A signer signs nothing with a key before the records of the others have been merged. */
  'key_without_records',
  /** All have the newest share, and not all have erased the ones before. */
  'refresh_unfinished',
  /** The shares of a key are twice as old as they are to become. */
  'refresh_overdue',
  /** What a signer has is in no backup, or not all of it is. */
  'backup_missing',
  /** The signers do not have the same limits of an owner. */
  'limits_differ',
] as const;
export type AlertKind = (typeof alertKinds)[number];

/** What an alert is about; there is one open alert of each. */
export interface AlertSubject {
  readonly kind: AlertKind;
  /** The signer that it is about, where it is one. */
  readonly party: PartyNumber | null;
  /** The account key that it is about, where it is one. */
  readonly keyId: string | null;
}

/** Something that one look at the signers has found. */
export interface SignerFinding extends AlertSubject {
  /** What exactly, in a sentence without its full stop. Of signers, so of whoever owns one: data, cut to some length. */
  readonly detail: string;
}

/** One look at the signers. JSON-safe and small, however many keys there are. */
export interface SignerLook {
  readonly findings: readonly SignerFinding[];
  /** Kinds of which there may be more than was found: none of them is taken to be over. */
  readonly unsure: readonly AlertKind[];
  /** Signers that answered, and account keys that they hold. */
  readonly answering: number;
  readonly keys: number;
  /** The lowest version of what is frozen that one of them has; absent where none says. */
  readonly freezeVersion?: number;
}

/** A finding that is remembered. */
export interface SignerAlert extends SignerFinding {
  readonly id: string;
  /** When it was first found. */
  readonly foundAt: Date;
  /** When it was found last. */
  readonly seenAt: Date;
  /** When it had lasted long enough to tell somebody. */
  readonly openedAt: Date | null;
}

const minuteMs = 60_000;

/** How long something must last before anybody is told: what heals by itself is nobody's business. */
export const graceMs: Readonly<Record<AlertKind, number>> = {
  signer_banned: 0,
  signer_unreachable: 5 * minuteMs,
  signers_unwatched: 5 * minuteMs,
  key_behind: 60 * minuteMs,
  key_without_records: 60 * minuteMs,
  refresh_unfinished: 60 * minuteMs,
  refresh_overdue: 0,
  backup_missing: 60 * minuteMs,
  limits_differ: 60 * minuteMs,
};

/** An alert is over when it was not found for so long: what comes and goes is told once. */
export const calmMs = 5 * minuteMs;

/** What a look changes of what is remembered. */
export interface AlertChanges {
  /** Findings that are new; `opens`: told at once. */
  readonly found: readonly (SignerFinding & { readonly opens: boolean })[];
  /** Alerts that were found again, with what is found now; `opens`: they have lasted long enough. */
  readonly seen: readonly { readonly alert: SignerAlert; readonly detail: string; readonly opens: boolean }[];
  /** Open alerts that are over. */
  readonly closed: readonly SignerAlert[];
  /** What went away before anybody was told. */
  readonly dropped: readonly SignerAlert[];
}

/** Compares what is remembered and not over with one look. Pure: `now` is the database's. */
export function compareAlerts(
  known: readonly SignerAlert[],
  { look, now }: { look: SignerLook; now: Date },
): AlertChanges {
  const remembered = new Map(known.map((alert) => [subjectOf(alert), alert]));
  const findings = new Map(look.findings.map((finding) => [subjectOf(finding), finding]));
  const unsure = new Set(look.unsure);
  const isDue = (kind: AlertKind, foundAt: Date) => now.getTime() - foundAt.getTime() >= graceMs[kind];

  const changes = { found: [], seen: [], closed: [], dropped: [] } as {
    -readonly [Name in keyof AlertChanges]: AlertChanges[Name][number][];
  };
  for (const [subject, finding] of findings) {
    const alert = remembered.get(subject);
    if (alert) {
      const opens = alert.openedAt === null && isDue(alert.kind, alert.foundAt);
      changes.seen.push({ alert, detail: finding.detail, opens });
    } else changes.found.push({ ...finding, opens: isDue(finding.kind, now) });
  }
  for (const [subject, alert] of remembered) {
    if (findings.has(subject) || unsure.has(alert.kind)) continue;
    if (alert.openedAt === null) changes.dropped.push(alert);
    else if (now.getTime() - alert.seenAt.getTime() >= calmMs) changes.closed.push(alert);
  }
  return changes;
}

function subjectOf({ kind, party, keyId }: AlertSubject): string {
  return JSON.stringify([kind, party, keyId]);
}
