import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** What a fresh stack writes in its first minutes, with room to work. */
const NEEDED_BYTES = 500_000_000;
/** Everything that a stack keeps in its home, and nothing else: a reset removes these. */
const CONTENTS = [
  'bitcoin',
  'chain',
  'dev.json',
  'keys',
  'logs',
  'mail',
  'postgres',
  'signers',
  'signers.json',
  'temporal.db',
  'temporal.db-shm',
  'temporal.db-wal',
];
const LOCK = 'lock.db';

/** Facts about a running stack, as in `dev.json`. */
export interface DevFacts {
  /** Root of the API without `/api/v1`. */
  base_url: string;
  api_key: string;
  account_id: string;
  /** Web interface of Temporal; empty when the server is not ours and its interface unknown. */
  temporal_ui: string;
  temporal_address: string;
  rpc_url: string;
  /** CAIP-2. */
  chain: string;
  usdc_address: string;
  /** Esplora-style API of the local Bitcoin network, and its CAIP-2 name; only with `--bitcoin`. */
  bitcoin_url?: string;
  bitcoin_chain?: string;
  /** Role `purser_app`. */
  database_url: string;
  signer_urls: string[];
  /** Inbox of everybody who is sent mail. */
  mail_url: string;
  smtp_url: string;
  /** Identity provider, whose people are chosen from a list: owner@example.com and approver@example.com. */
  provider_url: string;
}

/** The folder that holds all data of one stack, locked for us while this process lives. */
export interface Home {
  path: string;
  /** A path inside. */
  file(...names: string[]): string;
  /** The facts of the last start; undefined before the first. */
  readFacts(): DevFacts | undefined;
  writeFacts(facts: DevFacts): void;
  /** Puts JSON into a file of that name, whole or not at all, for nobody else to read. */
  write(name: string, content: object): void;
  /** Gives the folder up. */
  close(): void;
}

/**
 * Takes the folder `PURSER_HOME` (default `.purser` in the working directory) for this process, and empties it first
 * when asked to. Throws one sentence when another process has it, when it is not ours, or when the disk is full.
 */
export function openHome(env: NodeJS.ProcessEnv, o: { reset: boolean }): Home {
  const path = resolve(env.PURSER_HOME ?? '.purser');
  mkdirSync(path, { recursive: true });
  refuseForeignFolder(path);
  const lock = takeLock(path);
  if (o.reset) for (const name of CONTENTS) rmSync(join(path, name), { recursive: true, force: true });
  // Postgres, which may run as another user, must be able to pass; the files inside are closed themselves.
  chmodSync(path, 0o711);
  const { bavail, bsize } = statfsSync(path);
  if (bavail * bsize < NEEDED_BYTES) {
    const megabytes = Math.floor((bavail * bsize) / 1e6);
    throw new Error(
      `Not enough space on the disk of ${path}: ${megabytes} MB are free and ${NEEDED_BYTES / 1e6} MB are needed; free some, or set PURSER_HOME to a folder on another disk.`,
    );
  }
  const file = (...names: string[]) => join(path, ...names);
  function write(name: string, content: object): void {
    writeFileSync(file(`${name}.new`), `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
    renameSync(file(`${name}.new`), file(name));
  }
  return {
    path,
    file,
    readFacts: () =>
      existsSync(file('dev.json')) ? (JSON.parse(readFileSync(file('dev.json'), 'utf8')) as DevFacts) : undefined,
    write,
    writeFacts: (facts) => write('dev.json', facts),
    close: () => lock.close(),
  };
}

/** A mistyped PURSER_HOME must not mix our data with somebody else's. */
function refuseForeignFolder(path: string): void {
  const known = new Set([...CONTENTS, LOCK, `${LOCK}-journal`, 'dev.json.new']);
  const foreign = readdirSync(path).find((name) => !known.has(name));
  if (foreign === undefined) return;
  throw new Error(`PURSER_HOME is ${path}, but that folder holds other things (${foreign}); give a folder of its own.`);
}

/** SQLite's lock on a file ends with the process that holds it, however it ends; a file with a process id would not. */
function takeLock(path: string): DatabaseSync {
  const lock = new DatabaseSync(join(path, LOCK), { timeout: 0 });
  try {
    lock.exec('pragma journal_mode = delete; begin exclusive');
    return lock;
  } catch (error) {
    lock.close();
    if (!/locked/.test(String(error))) throw error;
    throw new Error(
      `Purser runs already with the data in ${path}; stop it first, or set PURSER_HOME to another folder.`,
    );
  }
}
