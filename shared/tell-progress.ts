/** How often a line is written where lines cannot be rewritten, and how often one is rewritten where they can. */
const [reminderMs, redrawMs] = [10_000, 200];

/** Says how far long work is. */
export interface ProgressTeller {
  /** What is under way, as `300 of 1000 wallets`. Call it as often as you like. */
  tell(text: string): void;
  /** Leaves the terminal's line for what comes next. */
  end(): void;
}

/** On a terminal one line that changes; elsewhere a plain line, every ten seconds at most. Writes nothing to stdout. */
export function tellProgress(out: NodeJS.WriteStream = process.stderr): ProgressTeller {
  const moving = out.isTTY === true;
  let writtenAt = moving ? Number.NEGATIVE_INFINITY : performance.now();
  let isDrawn = false;
  return {
    tell(text) {
      if (performance.now() - writtenAt < (moving ? redrawMs : reminderMs)) return;
      writtenAt = performance.now();
      out.write(moving ? `\r\x1b[2K… ${text.slice(0, (out.columns ?? 80) - 3)}` : `… ${text}\n`);
      isDrawn = moving;
    },
    end() {
      if (isDrawn) out.write('\r\x1b[2K');
      isDrawn = false;
    },
  };
}
