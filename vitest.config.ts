import { defineConfig } from 'vitest/config';

/** Two cores are the smallest machine that the suite is meant for; more workers than that only make timings noisy. */
const MAX_WORKERS = 2;

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
        test: {
          name: 'e2e',
          // After the others: timings of a whole stack mean nothing beside them.
          sequence: { groupOrder: 2 },
          include: ['test/e2e/**/*.test.ts'],
          globalSetup: ['test/support/global-setup.ts', 'test/support/bundle-of-run.ts'],
          testTimeout: 600_000,
          hookTimeout: 600_000,
          // Each file brings up a whole stack of its own.
          fileParallelism: false,
        },
      },
    ],
  },
});
