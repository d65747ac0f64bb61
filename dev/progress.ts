/** How often a line is written about a step that takes long, where lines cannot be rewritten. */
const REMINDER_MS = 10_000;
const REDRAW_MS = 200;

/** Shows what is under way and for how long: one moving line on a terminal, plain lines elsewhere. */
export interface Progress {
  /** Runs a step and writes how long it took. `detail` may change while it runs. */
  step<T>(name: string, run: (detail: (text: string) => void) => Promise<T>): Promise<T>;
  /** Writes a line of its own. */
  line(text: string): void;
  stop(): void;
}

export function createProgress(out: NodeJS.WriteStream): Progress {
  const running = new Map<string, { from: number; detail: string }>();
  const seconds = (from: number) => `${((performance.now() - from) / 1000).toFixed(1)} s`;
  const moving = out.isTTY === true;
  const clear = () => {
    if (moving) out.write('\r\x1b[2K');
  };
  const summary = () =>
    [...running].map(([name, { from, detail }]) => `${name}${detail && ` (${detail})`} ${seconds(from)}`).join(' · ');
  const draw = () => {
    if (running.size === 0) return;
    if (moving) out.write(`\r\x1b[2K  … ${summary().slice(0, (out.columns ?? 80) - 5)}`);
    else out.write(`  … ${summary()}\n`);
  };
  const timer = setInterval(draw, moving ? REDRAW_MS : REMINDER_MS);
  const line = (text: string) => {
    clear();
    out.write(`${text}\n`);
  };
  return {
    line,
    async step(name, run) {
      const state = { from: performance.now(), detail: '' };
      running.set(name, state);
      try {
        const result = await run((text) => {
          state.detail = text;
          if (!moving) line(`  … ${name}: ${text}`);
        });
        line(`  ✓ ${name}  ${seconds(state.from)}`);
        return result;
      } finally {
        running.delete(name);
      }
    },
    stop() {
      clearInterval(timer);
      clear();
    },
  };
}
