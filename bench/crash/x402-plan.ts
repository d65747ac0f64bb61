import { createRandom } from './random.ts';

/** How long a header is good at least, and here at most as well: a round waits for what is never used. */
export const headerSeconds = 30;
/** Apart from the numbers that decide about everything else, so that a seed goes on meaning the same. */
const apart = 0x402;
const mostPayments = 8;
/** Minor units of USDC. */
const [cheapestMinor, dearestMinor] = [1, 400_000];

export interface PlannedX402 {
  readonly atMs: number;
  readonly amountMinor: number;
  /** As for a transfer. */
  readonly client: 'once' | 'insists' | 'repeats' | 'twice';
  /** When the target has the header settled, from the moment on at which it can; null: never. */
  readonly usedAfterMs: number | null;
}

/** What is paid out of the one x402 session of a round. */
export interface X402Plan {
  /** Now and then less than what is asked for. */
  readonly budgetMinor: number;
  readonly payments: readonly PlannedX402[];
  /** When the session is deleted; null: once the round is over. */
  readonly deletedAtMs: number | null;
}

/** @param withinMs payments are asked for until then */
export function planX402(seed: number, { withinMs }: { withinMs: number }): X402Plan {
  const random = createRandom(seed ^ apart);
  const payments = Array.from({ length: random.int(2, mostPayments) }, () => ({
    atMs: random.int(0, withinMs),
    amountMinor: random.int(cheapestMinor, dearestMinor),
    client: random.weighted([
      ['insists', 6],
      ['once', 2],
      ['repeats', 1],
      ['twice', 1],
    ] as const),
    usedAfterMs: random.chance(0.6) ? random.int(0, 1_500) : null,
  }));
  const total = payments.reduce((sum, { amountMinor }) => sum + amountMinor, 0);
  return {
    budgetMinor: random.chance(0.3) ? Math.ceil(total / 2) : total,
    payments: payments.toSorted((a, b) => a.atMs - b.atMs),
    deletedAtMs: random.chance(0.2) ? random.int(Math.floor(withinMs / 2), withinMs) : null,
  };
}
