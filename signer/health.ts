import type { Party } from './parties.ts';

/** After a failure a signer is asked for its health at most this often before it is used again. */
const PROBE_INTERVAL_MS = 2_000;
/** The interval doubles each time that a signer says that it is well, and fails when it is used. */
const PROBE_INTERVAL_MAX_MS = 60_000;

export type Pair = readonly [Party, Party];
const PAIRS: readonly Pair[] = [
  [1, 2],
  [2, 3],
  [3, 1],
];

/** Remembers which signers failed, and in which order to try the pairs. */
export interface SignerHealthRecord {
  failed(party: Party): void;
  /** It says that it is well. */
  succeeded(party: Party): void;
  /** They have shown that they are well. One that was found slow meanwhile has not. */
  signed(pair: Pair): void;
  /** All three pairs, healthy ones first, taking turns so that the load is shared. */
  pairs(): Pair[];
  /** How many of the pair failed and have not been well since. */
  suspicion(pair: Pair): number;
  /** Signers that failed and are due for a probe; each is given out once an interval. */
  dueForProbe(): Party[];
}

export function createSignerHealthRecord(p: { now: () => Date }): SignerHealthRecord {
  const suspects = new Map<Party, { probeAtMs: number }>();
  /** How often each has failed anew since it last signed. */
  const falls = new Map<Party, number>();
  let turn = 0;
  const suspicion = (pair: Pair) => pair.filter((party) => suspects.has(party)).length;
  const suspect = (party: Party) => {
    const intervalMs = Math.min(PROBE_INTERVAL_MS * 2 ** (falls.get(party)! - 1), PROBE_INTERVAL_MAX_MS);
    suspects.set(party, { probeAtMs: p.now().getTime() + intervalMs });
  };
  return {
    failed(party) {
      if (!suspects.has(party)) falls.set(party, (falls.get(party) ?? 0) + 1);
      suspect(party);
    },
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
      const due = [...suspects].filter(([, { probeAtMs }]) => probeAtMs <= nowMs).map(([party]) => party);
      for (const party of due) suspect(party);
      return due;
    },
  };
}
