import type { Party } from './parties.ts';

/** After a failure a signer is asked for its health at most this often before it is used again. */
const PROBE_INTERVAL_MS = 2_000;
/** The interval doubles each time that a signer says that it is well, and fails when it is used. */
const PROBE_INTERVAL_MAX_MS = 60_000;

/** How much each speaks against a signer: two that are late are rather used than one that does not answer at all. */
const LATE = 1;
const SILENT = 3;

export type Pair = readonly [Party, Party];
const PAIRS: readonly Pair[] = [
  [1, 2],
  [2, 3],
  [3, 1],
];

/** Remembers which signers failed, and in which order to try the pairs. */
export interface SignerHealthRecord {
  /** It kept somebody waiting. */
  late(party: Party): void;
  /** It did not answer, or not as itself. */
  failed(party: Party): void;
  /** It says that it is well. */
  succeeded(party: Party): void;
  /** They have shown that they are well. One that was found slow meanwhile has not. */
  signed(pair: Pair): void;
  /** All three pairs, healthy ones first, taking turns so that the load is shared. */
  pairs(): Pair[];
  /** What speaks against a pair; 0 for one of which nobody was late or failed and has not been well since. */
  suspicion(pair: Pair): number;
  /** Signers that failed and are due for a probe; each is given out once an interval. */
  dueForProbe(): Party[];
}

export function createSignerHealthRecord(p: { now: () => Date }): SignerHealthRecord {
  const suspects = new Map<Party, { probeAtMs: number; weight: number }>();
  /** How often each has failed anew since it last signed. */
  const falls = new Map<Party, number>();
  let turn = 0;
  const suspicion = (pair: Pair) => pair.reduce((sum, party) => sum + (suspects.get(party)?.weight ?? 0), 0);
  const askLater = (party: Party, weight: number) => {
    const intervalMs = Math.min(PROBE_INTERVAL_MS * 2 ** (falls.get(party)! - 1), PROBE_INTERVAL_MAX_MS);
    suspects.set(party, { probeAtMs: p.now().getTime() + intervalMs, weight });
  };
  const suspect = (party: Party, weight: number) => {
    const known = suspects.get(party);
    if (!known) falls.set(party, (falls.get(party) ?? 0) + 1);
    askLater(party, Math.max(weight, known?.weight ?? 0));
  };
  return {
    late: (party) => suspect(party, LATE),
    failed: (party) => suspect(party, SILENT),
    succeeded: (party) => void suspects.delete(party),
    signed(pair) {
      for (const party of pair) if (!suspects.has(party)) falls.delete(party);
    },
    pairs() {
      turn = (turn + 1) % PAIRS.length;
      const rotated = [...PAIRS.slice(turn), ...PAIRS.slice(0, turn)];
      return rotated.sort((a, b) => suspicion(a) - suspicion(b));
    },
    suspicion,
    dueForProbe() {
      const nowMs = p.now().getTime();
      const due = [...suspects].filter(([, { probeAtMs }]) => probeAtMs <= nowMs);
      for (const [party, { weight }] of due) askLater(party, weight);
      return due.map(([party]) => party);
    },
  };
}
