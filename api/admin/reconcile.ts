import { ActivityFailure, Client, Connection, WorkflowFailedError } from '@temporalio/client';
import { z } from 'zod';
import { freezeAndNote, unfreezeAndNote } from '../../shared/change-freeze.ts';
import type { AdminConfig } from '../../shared/config.ts';
import { byOperator } from '../../shared/db/audit.ts';
import { type FreezeRow, findFreeze } from '../../shared/db/freezes.ts';
import { inTransaction, type Pool } from '../../shared/db/pool.ts';
import { blocks, restoreFindings } from '../../shared/domain/restore.ts';
import { startFreeze } from '../../shared/freeze-start.ts';
import { isOfAnotherDatabase } from '../../shared/note-database.ts';
import { renderFreeze } from '../../shared/render-freeze.ts';
import { tellAccounts } from '../../shared/tell-accounts.ts';
import type { RestoreResult } from '../../shared/temporal.ts';
import { requireAllSigners, runRestore } from '../operations/reconcile.ts';
import { operatorName } from '../operator-name.ts';
import { UsageError } from '../usage-error.ts';
import type { Commands } from './command.ts';

const installation = { scope: 'installation' } as const;
const reason = 'reconcile compares the database with the signers';
const onOff = (option: string) => z.enum(['on', 'off'], { error: `${option} must be on or off.` }).default('off');

const options = z.object({
  'dry-run': onOff('--dry-run'),
  'keep-frozen': onOff('--keep-frozen'),
  database: z.enum(['restored', 'kept'], { error: '--database must be restored or kept.' }).default('restored'),
  since: z.iso
    .datetime({ offset: true, error: '--since must be a time, such as 2026-01-31T00:00:00Z.' })
    .transform((text) => new Date(text).getTime())
    .refine((ms) => ms <= Date.now(), { error: '--since must be a time in the past: it says how far back to compare.' })
    .optional(),
});

/**
 * What `reconcile` does: freezes the installation, has the workers compare the database with signers, Temporal and chain,
 * prints what was mended and what a person must decide, and lifts the freeze unless something stands against that. It lifts
 * what the service itself has frozen, because of another database or for the comparison, and never what a person ordered.
 */
export const reconcileCommands: Commands = {
  reconcile: {
    options: { 'dry-run': 'on|off', database: 'restored|kept', since: 'TIME', 'keep-frozen': 'on|off' },
    prepare(values) {
      const { 'dry-run': dry, 'keep-frozen': keep, database, since: sinceMs } = options.parse(values);
      const dryRun = dry === 'on';
      const isKept = database === 'kept';
      return ({ pool, config }) =>
        withTemporal(config, async (client) => {
          const acting = byOperator(operatorName());
          const before = await findFreeze(pool, installation);
          if (isKept && before && isOfAnotherDatabase(before))
            throw new UsageError(
              '--database kept is wrong: this is another database than before (a restore, or a standby that took over), so something may be lost. Nothing was changed; leave the option out.',
            );
          const tell = (words: string) => console.error(words);
          await requireAllSigners(client, { tell });
          if (!dryRun) {
            await inTransaction(pool, (db) => freezeAndNote(db, { ...installation, reason, acting, by: 'system' }));
            await startFreeze(client);
          }
          const input = { dryRun, isKept, ...(sinceMs !== undefined && { sinceMs }) };
          const result = await runRestore(client, { input, tell }).catch((error: unknown) => {
            throw failed(error, { dryRun });
          });
          const isBlocked = blocks(result.report);
          const mayLift = !dryRun && !isBlocked && keep === 'off';
          const frozen = mayLift ? await liftOwn(pool, { client, acting }) : await findFreeze(pool, installation);
          if (!dryRun) await tellAccounts(pool);
          if (isBlocked || (mayLift && frozen)) process.exitCode = 1;
          return render(result, { mayLift, isBlocked, frozen });
        });
    },
  },
};

/** Lifts the freeze unless a person has ordered it, also while it was compared. @returns the one that stands */
async function liftOwn(
  pool: Pool,
  { client, acting }: { client: Client; acting: ReturnType<typeof byOperator> },
): Promise<FreezeRow | undefined> {
  await inTransaction(pool, (db) => unfreezeAndNote(db, { ...installation, acting, onlyOf: 'system' }));
  await startFreeze(client);
  return findFreeze(pool, installation);
}

const next = {
  dry: 'Nothing was changed. Run it again without --dry-run on.',
  blocked:
    'All stays frozen: decide what is listed under before_unfreezing, then reconcile again; npm run admin -- unfreeze all lifts the freeze in spite of it.',
  lifted: 'The freeze is lifted: payments go on within seconds.',
  kept: 'All stays frozen, as you wished: npm run admin -- unfreeze all lifts it.',
};

/** Why somebody else has frozen it is not known here. */
const ordered = ({ reason: why, frozen_by, created_at }: FreezeRow) =>
  `All stays frozen, by order of ${frozen_by} at ${created_at.toISOString()} (${why}). Nothing that was found here stands against going on: npm run admin -- unfreeze all lifts it.`;

function render(
  { dryRun, sinceMs, lostFromMs, compared, ends, report }: RestoreResult,
  { mayLift, isBlocked, frozen }: { mayLift: boolean; isBlocked: boolean; frozen: FreezeRow | undefined },
) {
  const told = (kind: (typeof restoreFindings)[keyof typeof restoreFindings]) =>
    report.findings.filter(({ what }) => restoreFindings[what] === kind);
  const lifted = frozen ? ordered(frozen) : next.lifted;
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
    unfrozen: mayLift && !frozen,
    freeze: frozen ? renderFreeze(frozen) : null,
    next: dryRun ? next.dry : isBlocked ? next.blocked : mayLift ? lifted : next.kept,
  };
}

/** Why the comparison did not come to its end, as far down as a reason is told. */
function failed(error: unknown, { dryRun }: { dryRun: boolean }): unknown {
  if (!(error instanceof WorkflowFailedError)) return error;
  const cause = error.cause instanceof ActivityFailure ? error.cause.cause : error.cause;
  const after = dryRun
    ? 'Nothing was changed.'
    : 'All stays frozen: reconcile again, it goes on from what is mended already.';
  return new UsageError(`${cause?.message ?? error.message} ${after}`);
}

/** @throws UsageError where there is no Temporal to ask */
async function withTemporal<T>({ temporal }: AdminConfig, work: (client: Client) => Promise<T>): Promise<T> {
  if (!temporal)
    throw new UsageError('TEMPORAL_ADDRESS is missing: the workers compare, and are asked through Temporal.');
  const { address, namespace, apiKey, tls } = temporal;
  const connection = await Connection.connect({ address, tls, ...(apiKey !== undefined && { apiKey }) });
  try {
    return await work(new Client({ connection, namespace }));
  } finally {
    await connection.close();
  }
}
