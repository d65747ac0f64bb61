/** What one run of the reconcile schedule found and did. */
export interface ReconcileResult {
  /** Open payments and sessions, and late deliveries, whose workflow was looked for. */
  readonly visited: number;
  /** Of those, the ones that had none that runs and have one now. */
  readonly started: number;
  /** Payments that still waited after their question was answered, its policy changed, or a replacement asked for; they look again. */
  readonly reminded: number;
  /** Payments on which nothing was done for long; their workflows look at the database and at the chain. */
  readonly nudged: number;
  /** Of those, the ones whose workflow tries the same step again and again. */
  readonly failing: number;
  /** What ended payments still took, and take no more. */
  readonly repaired: { readonly reservations: number; readonly holds: number; readonly approvals: number };
  /** Chains on which payments wait that nobody watches. */
  readonly unwatched: readonly { readonly chain: string; readonly payments: number; readonly seen_at: string | null }[];
  /** Idempotency keys that were deleted because their time is over. */
  readonly expiredKeys: number;
}

/** A run in words, for the operator. */
export function describeReconcile(result: ReconcileResult): string {
  const { visited, started, reminded, nudged, failing, repaired, unwatched, expiredKeys } = result;
  const told: readonly (readonly [count: number, sentence: string])[] = [
    [started, `Started ${started} missing workflows.`],
    [reminded, `Had ${reminded} look again for an answer or a wish.`],
    [nudged, `Nudged ${nudged} that made no progress.`],
    [failing, `${failing} of them fail again and again at the same step: see the worker's log.`],
    [repaired.reservations, `Gave back ${repaired.reservations} reservations of ended payments.`],
    [repaired.holds, `Gave back ${repaired.holds} holds of ended payments.`],
    [repaired.approvals, `Withdrew ${repaired.approvals} questions about ended payments.`],
    ...unwatched.map(
      ({ chain, payments, seen_at }) =>
        [payments, `Nobody watches ${chain}, where ${payments} payments wait: ${lastSeen(seen_at)}.`] as const,
    ),
    [expiredKeys, `Deleted ${expiredKeys} expired idempotency keys.`],
  ];
  const sentences = told.filter(([count]) => count > 0).map(([, sentence]) => sentence);
  return [`Looked at ${visited} open payments, sessions and deliveries.`, ...sentences].join(' ');
}

const lastSeen = (seenAt: string | null) =>
  seenAt === null ? 'no block of it was ever seen' : `its last block was seen at ${seenAt}`;
