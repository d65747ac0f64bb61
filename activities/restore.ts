import type { Client } from '@temporalio/client';
import type { Registry } from '../shared/chain/registry.ts';
import { databaseClock } from '../shared/db/clock.ts';
import type { Pool } from '../shared/db/pool.ts';
import {
  countByStatus,
  findUnsure,
  forgetVisits,
  isFrozenAndTold,
  readNewestSigned,
  secureKeys,
} from '../shared/db/restored.ts';
import { listUnwatchedChains } from '../shared/db/unattended.ts';
import type { RestoreFinding } from '../shared/domain/restore.ts';
import type { Logger } from '../shared/log.ts';
import type { ListedPayment } from './list-signed.ts';
import { createRestorePayments } from './restore-payments.ts';
import { createEndLost, createEndRuns } from './restore-runs.ts';
import { visitPayments } from './visit-payments.ts';
import { withHeartbeat } from './with-heartbeat.ts';

/**
 * Children of each account's key that are passed over after a restore: far more than an account makes in the time that a
 * restore may lose, and nothing beside the 10^9 that there are.
 */
const skippedIndexes = 1_000;

export interface RestoreDependencies {
  readonly pool: Pool;
  readonly client: Client;
  readonly registry: Registry;
  readonly logger: Logger;
}

/** Activities of queue `wallet` that bring the database up to what signers and Temporal know, after a restore. */
export function createRestoreActivities(deps: RestoreDependencies) {
  const { pool } = deps;
  return {
    /** Of payments that were signed for, those that the database does not know as ended since their last signature. */
    findUnsure: (payments: readonly ListedPayment[]) => findUnsure(pool, { payments }),
    restorePayments: createRestorePayments({ ...deps, clock: databaseClock }),
    endLost: createEndLost(deps),
    endRuns: createEndRuns(deps),

    /** Whether nothing new is signed anywhere; and the newest instant that the database knows of, in ms. */
    async readStanding(): Promise<{ frozen: boolean; told: boolean; newestMs: number | null }> {
      const [standing, newest] = [await isFrozenAndTold(pool), await readNewestSigned(pool)];
      return { ...standing, newestMs: newest?.getTime() ?? null };
    },

    /** Keeps addresses that may have been given out in the time that was lost from being given out again. */
    async secureKeys({ dryRun }: { dryRun: boolean }): Promise<RestoreFinding[]> {
      if (dryRun) return [];
      const { skipped, retired } = await secureKeys(pool, { skip: skippedIndexes, now: new Date() });
      const findings: RestoreFinding[] = [];
      if (skipped.length > 0) {
        const detail = `The next wallets of ${skipped.length} account keys are ${skippedIndexes} children further on, so that none gets an address that was given out in the time that was lost.`;
        findings.push({ what: 'indexes_skipped', id: '', detail });
      }
      if (retired.length > 0) {
        const detail = `${retired.length} spare keys are out of use, for an account that is lost may have had them: ${retired.join(', ')}. New ones are made.`;
        findings.push({ what: 'spare_keys_retired', id: '', detail });
      }
      return findings;
    },

    /** Has every open payment and session followed by a workflow that begins from what the database says now. */
    async resumePayments(): Promise<{ started: number }> {
      return withHeartbeat(async () => {
        await forgetVisits(pool);
        const unwatched = await listUnwatchedChains(pool);
        const { started } = await visitPayments(deps, { unwatched: unwatched.map(({ chain }) => chain) });
        return { started };
      });
    },

    countEnds: (ids: readonly string[]) => countByStatus(pool, { ids }),
  };
}
export type RestoreActivities = ReturnType<typeof createRestoreActivities>;
