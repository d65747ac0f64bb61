import { Client, Connection, WorkflowFailedError } from '@temporalio/client';
import { z } from 'zod';
import { freezeAndNote, unfreezeAndNote } from '../../shared/change-freeze.ts';
import type { AdminConfig } from '../../shared/config.ts';
import { byOperator } from '../../shared/db/audit.ts';
import { inTransaction } from '../../shared/db/pool.ts';
import { blocks, restoreFindings } from '../../shared/domain/restore.ts';
import { startFreeze } from '../../shared/freeze-start.ts';
import type { RestoreResult } from '../../shared/temporal.ts';
import { runRestore } from '../operations/reconcile.ts';
import { operatorName } from '../operator-name.ts';
import { UsageError } from '../usage-error.ts';
import type { Commands } from './command.ts';

const installation = { scope: 'installation' } as const;
const reason = 'reconcile compares the database with the signers';
const onOff = (option: string) => z.enum(['on', 'off'], { error: `${option} must be on or off.` }).default('off');

const options = z.object({
  'dry-run': onOff('--dry-run'),
  'keep-frozen': onOff('--keep-frozen'),
  since: z.iso
    .datetime({ offset: true, error: '--since must be a time, such as 2026-01-31T00:00:00Z.' })
    .transform((text) => new Date(text).getTime())
    .optional(),
});

/**
 * What `reconcile` does: freezes the installation, has the workers compare the database with signers, Temporal and chain,
 * prints what was mended and what a person must decide, and lifts the freeze unless something stands against that.
 */
export const reconcileCommands: Commands = {
  reconcile: {
    options: { 'dry-run': 'on|off', since: 'TIME', 'keep-frozen': 'on|off' },
    prepare(values) {
      const { 'dry-run': dry, 'keep-frozen': keep, since: sinceMs } = options.parse(values);
      const dryRun = dry === 'on';
      return ({ pool, config }) =>
        withTemporal(config, async (client) => {
          const acting = byOperator(operatorName());
          if (!dryRun) {
            await inTransaction(pool, (db) => freezeAndNote(db, { ...installation, reason, acting }));
            await startFreeze(client);
          }
          const input = { dryRun, ...(sinceMs !== undefined && { sinceMs }) };
          const result = await runRestore(client, { input, tell: (words) => console.error(words) });
          const isBlocked = blocks(result.report);
          const lifts = !dryRun && !isBlocked && keep === 'off';
          if (lifts) {
            await inTransaction(pool, (db) => unfreezeAndNote(db, { ...installation, acting }));
            await startFreeze(client);
          }
          if (isBlocked) process.exitCode = 1;
          return render(result, { lifts, isBlocked });
        });
    },
  },
};

const next = {
  dry: 'Nothing was changed. Run it again without --dry-run on.',
  blocked:
    'All stays frozen: decide what is listed under before_unfreezing, then reconcile again; npm run admin -- unfreeze all lifts the freeze in spite of it.',
  lifted: 'The freeze is lifted: payments go on within seconds.',
  kept: 'All stays frozen, as you wished: npm run admin -- unfreeze all lifts it.',
};

function render(
  { dryRun, sinceMs, lostFromMs, compared, ends, report }: RestoreResult,
  { lifts, isBlocked }: { lifts: boolean; isBlocked: boolean },
) {
  const told = (kind: (typeof restoreFindings)[keyof typeof restoreFindings]) =>
    report.findings.filter(({ what }) => restoreFindings[what] === kind);
  return {
    dry_run: dryRun,
    compared_since: new Date(sinceMs).toISOString(),
    newest_in_database: lostFromMs === null ? null : new Date(lostFromMs).toISOString(),
    payments_compared: compared,
    counts: report.counts,
    repaired: told('repaired'),
    to_decide: told('decide'),
    before_unfreezing: told('blocks'),
    restored_payments_by_status: ends,
    unfrozen: lifts,
    next: next[dryRun ? 'dry' : isBlocked ? 'blocked' : lifts ? 'lifted' : 'kept'],
  };
}

/** @throws UsageError where there is no Temporal to ask, and with the reason why the comparison failed */
async function withTemporal<T>({ temporal }: AdminConfig, work: (client: Client) => Promise<T>): Promise<T> {
  if (!temporal)
    throw new UsageError('TEMPORAL_ADDRESS is missing: the workers compare, and are asked through Temporal.');
  const { address, namespace, apiKey, tls } = temporal;
  const connection = await Connection.connect({ address, tls, ...(apiKey !== undefined && { apiKey }) });
  try {
    return await work(new Client({ connection, namespace }));
  } catch (error) {
    throw error instanceof WorkflowFailedError ? new UsageError(error.cause?.message ?? error.message) : error;
  } finally {
    await connection.close();
  }
}
