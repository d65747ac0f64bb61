import type { Party } from './parties.ts';

/** After a failure a signer is asked for its health at most this often before it is used again. */
const PROBE_INTERVAL_MS = 2_000;

export type Pair = readonly [Party, Party];
const PAIRS: readonly Pair[] = [
  [1, 2],
  [2, 3],
  [3, 1],
];

/** Remembers which signers failed, and in which order to try the pairs. */
export interface SignerHealthRecord {
  failed(party: Party): void;
  succeeded(party: Party): void;
  /** All three pairs, healthy ones first, taking turns so that the load is shared. */
  pairs(): Pair[];
  /** How many of the pair failed and have not been well since. */
  suspicion(pair: Pair): number;
  /** Signers that failed and are due for a probe; each is given out once an interval. */
  dueForProbe(): Party[];
}

export function createSignerHealthRecord(p: { now: () => Date }): SignerHealthRecord {
  const suspects = new Map<Party, { probeAtMs: number }>();
  let turn = 0;
  const suspicion = (pair: Pair) => pair.filter((party) => suspects.has(party)).length;
  return {
    failed: (party) => void suspects.set(party, { probeAtMs: p.now().getTime() + PROBE_INTERVAL_MS }),
    succeeded: (party) => void suspects.delete(party),
    pairs() {
      turn = (turn + 1) % PAIRS.length;
      const rotated = [...PAIRS.slice(turn), ...PAIRS.slice(0, turn)];
      return rotated.sort((a, b) => suspicion(a) - suspicion(b));
    },
    suspicion,
    dueForProbe() {
      const nowMs = p.now().getTime();
      const due = [...suspects].filter(([, { probeAtMs }]) => probeAtMs <= nowMs).map(([party]) => party);
      for (const party of due) suspects.set(party, { probeAtMs: nowMs + PROBE_INTERVAL_MS });
      return due;
    },
  };
}
