/** When a payment is asked for, and how. */
export interface Asking {
  readonly atMs: number;
  /**
   * What the client does beside asking: `once` gives up when no answer comes; `insists` asks until one comes; `repeats`
   * asks again after the answer, and `twice` at the same time, with the same Idempotency-Key.
   */
  readonly client: 'once' | 'insists' | 'repeats' | 'twice';
}

/** What somebody wants of a payment that was asked for: of those accepted so far the one at this place, modulo. */
export interface PlannedChange {
  readonly atMs: number;
  readonly change: 'cancel' | 'speed-up';
  readonly pick: number;
}
