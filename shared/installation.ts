import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from './api-key.ts';
import { claimInstallation, readDatabaseFacts } from './db/installation.ts';
import type { Pool } from './db/pool.ts';
import { developmentSecrets, type SecretFile } from './development-secrets.ts';
import type { Logger } from './log.ts';
import { noteDatabase } from './note-database.ts';
import { ConfigError } from './read-env.ts';

const retryMs = 1_000;
/** How long the other checks may take to tell what they find, once one of them has found something. */
const togetherMs = 3_000;
/** Of `google.rpc.Code`: the server has answered, and does not tell. Only a server that is run for many does that. */
const refusesToTell: ReadonlySet<unknown> = new Set([7 /* PERMISSION_DENIED */, 12 /* UNIMPLEMENTED */]);

/** Whether a process may work with what it was pointed at: sentences that say what is wrong. */
export interface Installation {
  /** What is wrong with the files that it reads. */
  readonly secrets: readonly string[];
  /**
   * What is wrong with the database. The first process of an installation makes it what it is itself. Rejects while the
   * database does not answer, or has no schema yet; asked until it is known, then never again.
   */
  readonly database: Check;
  /** The same of Temporal. */
  readonly temporal: Check;
}

type Check = () => Promise<readonly string[]>;

/** A process as it was configured. */
interface InstallationOptions {
  readonly environment: Environment;
  /** Files that it reads; in production none may be of `npm start`. */
  readonly secrets: readonly SecretFile[];
  /** Undefined for a process without a database. */
  readonly pool: Pool | undefined;
  /** Where the Temporal server keeps its data, as its `GetClusterInfo` says. */
  readonly persistenceStore: () => Promise<string | null | undefined>;
}

/**
 * An installation is for trying out or for real money, for good: a process that is set to the other one refuses to work
 * with its database. One for real money refuses besides what `npm start` brings along.
 * @throws ConfigError where a file cannot be read
 */
export function createInstallation(options: InstallationOptions): Installation {
  const isProduction = options.environment === 'production';
  const secrets = isProduction ? developmentSecrets(options.secrets) : [];
  const temporal = untilKnown(async () => (isProduction ? await checkTemporal(options.persistenceStore) : []));
  // What is refused anyway must not leave a mark on a new database.
  const mayClaim = async () => secrets.length === 0 && (await temporal().catch(() => [])).length === 0;
  return { secrets, database: untilKnown(() => checkDatabase(options, mayClaim)), temporal };
}

async function checkDatabase(
  { pool, environment }: InstallationOptions,
  mayClaim: () => Promise<boolean>,
): Promise<string[]> {
  if (!pool) return [];
  const { is_embedded: isEmbedded, environment: before } = await readDatabaseFacts(pool);
  const wrong: string[] = [];
  if (environment === 'production' && isEmbedded)
    wrong.push(
      'DATABASE_URL leads to the database that npm start brings along, which is for trying out and is refused in production.',
    );
  let installed = before;
  if (installed === null && wrong.length === 0 && (await mayClaim())) {
    await claimInstallation(pool, { environment });
    installed = (await readDatabaseFacts(pool)).environment;
  }
  if (installed !== null && installed !== environment)
    wrong.push(
      `DATABASE_URL leads to a ${installed} installation, and PURSER_ENV is ${environment}. An installation is one of both for good: set PURSER_ENV to ${installed}, or give this one a database of its own.`,
    );
  // Before anything is signed by what an earlier copy of it says.
  if (wrong.length === 0 && installed !== null) await noteDatabase(pool);
  return wrong;
}

async function checkTemporal(persistenceStore: () => Promise<string | null | undefined>): Promise<string[]> {
  try {
    if ((await persistenceStore()) !== 'sqlite') return [];
  } catch (error) {
    if (refusesToTell.has((error as { code?: unknown }).code)) return [];
    throw error;
  }
  return [
    'TEMPORAL_ADDRESS leads to a development server (temporal server start-dev), which is refused in production. Use a server with a database of its own, or Temporal Cloud.',
  ];
}

/**
 * Waits until everything is known, however long that takes.
 * @throws ConfigError with everything that is wrong, as far as it becomes known together
 */
export async function requireInstallation({
  installation,
  log,
  signal,
}: {
  installation: Installation;
  log: Pick<Logger, 'warn'>;
  /** Says that nobody waits any more. */
  signal: AbortSignal;
}): Promise<void> {
  const wrong: string[] = [];
  const enough = new AbortController();
  const over = AbortSignal.any([signal, enough.signal]);
  const note = (found: readonly string[]) => {
    if (found.length > 0 && wrong.length === 0) setTimeout(() => enough.abort(), togetherMs).unref();
    wrong.push(...found);
  };
  const ask = async (what: string, check: Check) => {
    for (let tries = 0; !over.aborted; tries += 1) {
      try {
        note(await check());
        return;
      } catch (error) {
        if (tries === 0) log.warn({ error: String(error) }, `${what} does not tell yet whose it is; asking again`);
        await delay(retryMs, undefined, { signal: over }).catch(() => {});
      }
    }
  };
  note(installation.secrets);
  const asked = Promise.all([ask('the database', installation.database), ask('Temporal', installation.temporal)]);
  await Promise.race([asked, once(over, 'abort')]);
  enough.abort();
  if (wrong.length > 0) throw new ConfigError(wrong);
}

/** Asks again only while it has no answer; whoever asks meanwhile waits for the same one. */
function untilKnown(check: Check): Check {
  let known: Promise<readonly string[]> | undefined;
  return () => {
    known ??= check().catch((error: unknown) => {
      known = undefined;
      throw error;
    });
    return known;
  };
}
