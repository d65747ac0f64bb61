import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { closeReservation, reserve } from '../../shared/db/reservations.ts';
import { readUsage } from '../../shared/db/usage.ts';
import { levelUnitsMs } from '../../shared/domain/policy/window-ranges.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { insertTestAgent, insertTestPayment } from '../support/rows.ts';

let database: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

/** Instants on and beside the borders of slots of every length, where a window is cut. */
const baseMs = 6_400 * levelUnitsMs.at(-1)!;
const instant = fc
  .tuple(fc.constantFrom(...levelUnitsMs), fc.integer({ min: -70, max: 70 }), fc.integer({ min: -1, max: 1 }))
  .map(([unitMs, slots, off]) => baseMs + unitMs * slots + off);
/** Windows that begin at a payment, or a moment or a slot beside it. */
const start = fc.tuple(fc.nat({ max: 11 }), fc.constantFrom(-1_024, -1_023, -1, 0, 1, 7, 1_023, 1_024, 65_536));

describe('the usage of a window', () => {
  it('is the plain sum of what is in it, wherever the borders of slots lie', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(instant, fc.integer({ min: 1, max: 9 }), fc.boolean()), { minLength: 1, maxLength: 12 }),
        fc.array(start, { minLength: 1, maxLength: 6 }),
        instant,
        async (payments, starts, nowMs) => {
          const agent = await insertTestAgent(pool);
          for (const [at, amount, isOpen] of payments) {
            const transactionId = await insertTestPayment(pool, agent);
            const taken = {
              paymentId: transactionId,
              ...agent,
              token: 'USDC',
              atoms: BigInt(amount),
              now: new Date(at),
            };
            await reserve(pool, taken);
            if (isOpen) continue;
            await closeReservation(pool, { paymentId: transactionId, state: 'settled' });
            // What has ended cannot end again, in whichever way.
            await closeReservation(pool, { paymentId: transactionId, state: at % 2 ? 'settled' : 'released' });
          }
          const lengths = starts.map(([index, delta]) => nowMs - payments[index % payments.length]![0] + delta);
          const windows = [...new Set(lengths.filter((length) => length > 0))];
          const usage = await readUsage(pool, { agentId: agent.agentId, windowsMs: windows, now: new Date(nowMs) });
          for (const window of windows) {
            const counted = payments.filter(([at, , isOpen]) => isOpen || at > nowMs - window);
            const aged = counted.filter(([, , isOpen]) => !isOpen).map(([at]) => at);
            expect(usage.find((entry) => entry.windowMs === window)).toEqual({
              windowMs: window,
              token: 'USDC',
              atoms: counted.reduce((sum, [, amount]) => sum + BigInt(amount), 0n),
              count: counted.length,
              oldest: aged.length === 0 ? null : new Date(Math.min(...aged)),
            });
          }
        },
      ),
      { numRuns: 150 },
    );
  });
});
