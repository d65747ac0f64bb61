/**
 * What comparing the database with the signers, the chain and Temporal has found, after one of them was restored from an
 * earlier time. JSON-safe: it passes through histories.
 */
export const restoreFindings = {
  // Mended.
  payment_recreated: 'repaired',
  payment_completed: 'repaired',
  place_given_up: 'repaired',
  payment_ended: 'repaired',
  agent_recreated: 'repaired',
  account_recreated: 'repaired',
  spare_keys_retired: 'repaired',
  indexes_skipped: 'repaired',
  runs_ended: 'repaired',
  // For a person; nothing is paid twice by going on.
  request_lost: 'decide',
  repeat_unknown: 'decide',
  place_used_up: 'decide',
  still_open: 'decide',
  settings_lost: 'decide',
  wallet_found: 'decide',
  wallets_unread: 'decide',
  // For a person, before anything goes on: it might be paid twice, or from the wrong wallet.
  ended_but_signed: 'blocks',
  places_disagree: 'blocks',
  owner_disagrees: 'blocks',
  token_unknown: 'blocks',
  key_unknown: 'blocks',
} as const satisfies Record<string, 'repaired' | 'decide' | 'blocks'>;

export type RestoreWhat = keyof typeof restoreFindings;

export interface RestoreFinding {
  readonly what: RestoreWhat;
  /** Of the payment, agent, account or key that it is about; empty where it is about several. */
  readonly id: string;
  /** One or more sentences for the operator. */
  readonly detail: string;
}

/** So many findings of a kind are told one by one; the rest are counted. */
const toldOfEach = 500;

/** Everything that was found, and how much of each kind. */
export interface RestoreReport {
  readonly counts: Readonly<Partial<Record<RestoreWhat, number>>>;
  readonly findings: readonly RestoreFinding[];
}

export const emptyReport: RestoreReport = { counts: {}, findings: [] };

/** Adds findings, and keeps the report small enough for a history. */
export function addFindings(report: RestoreReport, found: readonly RestoreFinding[]): RestoreReport {
  const counts: Partial<Record<RestoreWhat, number>> = { ...report.counts };
  const findings = [...report.findings];
  for (const each of found) {
    const count = (counts[each.what] ?? 0) + 1;
    counts[each.what] = count;
    if (count <= toldOfEach) findings.push(each);
  }
  return { counts, findings };
}

/** Whether something was found that a person has to look at before anything is signed again. */
export function blocks({ counts }: RestoreReport): boolean {
  return Object.entries(counts).some(([what, count]) => count > 0 && restoreFindings[what as RestoreWhat] === 'blocks');
}
