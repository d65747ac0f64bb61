import { defineConfig } from 'vitest/config';

/** Two cores are the smallest machine that the suite is meant for; more workers than that only make timings noisy. */
const MAX_WORKERS = 2;

/** What each file of whole installations has: a stack of its own, for minutes. */
const wholeStacks = {
  include: ['test/e2e/**/*.test.ts'],
  globalSetup: ['test/support/global-setup.ts', 'test/support/bundle-of-run.ts'],
  testTimeout: 600_000,
  hookTimeout: 600_000,
};
/** Files of them that measure how long something takes: nothing else runs meanwhile. */
const alone = ['rolling-restart', 'signer-namespaces', 'signer-network', 'start'].map(
  (name) => `test/e2e/${name}.test.ts`,
);

export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: MAX_WORKERS,
    // A promise that nobody waits for, or a handle left open, is a fault of the code under test.
    dangerouslyIgnoreUnhandledErrors: false,
    teardownTimeout: 30_000,
    // As the time a test may take: it ends what hangs, and nothing that works comes near it on a busy machine.
    expect: { poll: { timeout: 30_000 } },
    projects: [
      {
        extends: true,
        test: { name: 'unit', sequence: { groupOrder: 0 }, include: ['test/unit/**/*.test.ts'], testTimeout: 120_000 },
      },
      {
        extends: true,
        test: {
          name: 'integration',
          sequence: { groupOrder: 1 },
          include: ['test/integration/**/*.test.ts', 'test/replay/**/*.test.ts'],
          globalSetup: ['test/support/global-setup.ts'],
          testTimeout: 600_000,
          hookTimeout: 300_000,
        },
      },
      {
        extends: true,
        // After the others: a whole stack beside them would slow each other down. Two at a time, for much of it is waiting.
        test: { ...wholeStacks, name: 'e2e', sequence: { groupOrder: 2 }, exclude: alone },
      },
      {
        extends: true,
        test: {
          ...wholeStacks,
          name: 'e2e-alone',
          sequence: { groupOrder: 3 },
          include: alone,
          fileParallelism: false,
        },
      },
    ],
  },
});
