import type { Consumed, Usage } from './types.ts';

/** What was consumed of one token in one window. */
export interface UsageEntry extends Consumed {
  readonly windowMs: number;
  readonly token: string;
}

/** Usage as the engine asks for it, from what the database counted by window and token. */
export function createUsage({
  windowsMs,
  entries,
}: {
  windowsMs: readonly number[];
  entries: readonly UsageEntry[];
}): Usage {
  return {
    within(windowMs, tokens) {
      // A window that nobody counted is not an empty one.
      if (!windowsMs.includes(windowMs)) throw new Error(`The usage of a window of ${windowMs} ms was not read.`);
      const counted = entries.filter(
        (entry) => entry.windowMs === windowMs && (tokens === undefined || tokens.includes(entry.token)),
      );
      return {
        atoms: counted.reduce((sum, { atoms }) => sum + atoms, 0n),
        count: counted.reduce((sum, { count }) => sum + count, 0),
        oldest: counted.reduce<Date | null>((first, { oldest }) => earlier(first, oldest), null),
      };
    },
  };
}

function earlier(a: Date | null, b: Date | null): Date | null {
  if (a === null || b === null) return a ?? b;
  return a <= b ? a : b;
}
