import { spawn } from 'node:child_process';
import { constants, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The release that is built; part of the cache folder's name. */
const VERSION = '0.26.2';
/** What its go.mod asks for. */
const OLDEST_GO = '1.25';
const BUILD_TIMEOUT_MS = 10 * 60_000;

/**
 * Finds the btcd program, a Bitcoin node, and builds a private copy on first use. In this order: the file that
 * `PURSER_BTCD_BINARY` names; the cache; `go install` from the Go module proxy, which checks what it downloads against
 * the public checksum database. Throws one sentence that names the ways.
 */
export async function btcdBinary(
  env: NodeJS.ProcessEnv,
  { onProgress = () => {} }: { onProgress?: (message: string) => void } = {},
): Promise<string> {
  if (env.PURSER_BTCD_BINARY) return named(env.PURSER_BTCD_BINARY);
  const cache = join(cacheRoot(env), `btcd-${VERSION}`);
  const program = join(cache, 'btcd');
  if (existsSync(program)) return program;
  onProgress(`building btcd ${VERSION} with Go (first time; half a minute and more)`);
  await build({ cache, env });
  return program;
}

function cacheRoot(env: NodeJS.ProcessEnv): string {
  return env.PURSER_CACHE_DIR ?? fileURLToPath(new URL('../.cache', import.meta.url));
}

async function named(path: string): Promise<string> {
  await access(path, constants.X_OK).catch(() => {
    throw new Error(`PURSER_BTCD_BINARY is ${path}, but there is no program of that name.`);
  });
  return path;
}

/** Builds beside the cache and moves the result there, so that two who build at once do not disturb each other. */
async function build({ cache, env }: { cache: string; env: NodeJS.ProcessEnv }): Promise<void> {
  const target = `${cache}.${process.pid}`;
  mkdirSync(target, { recursive: true });
  try {
    await goInstall({ target, env });
    if (!existsSync(cache)) renameSync(target, cache);
  } catch (error) {
    throw new Error(
      `There is no Bitcoin node: install Go ${OLDEST_GO} or newer (https://go.dev/dl) so that btcd ${VERSION} can be built, or set PURSER_BTCD_BINARY to a btcd program (${(error as Error).message}).`,
    );
  } finally {
    rmSync(target, { recursive: true, force: true });
  }
}

function goInstall({ target, env }: { target: string; env: NodeJS.ProcessEnv }): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('go', ['install', '-trimpath', `github.com/btcsuite/btcd@v${VERSION}`], {
      env: { ...env, GOBIN: target, GOFLAGS: '' },
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: BUILD_TIMEOUT_MS,
    });
    let complaint = '';
    child.stderr.on('data', (chunk: Buffer) => {
      complaint = (complaint + chunk.toString('utf8')).slice(-2_000);
    });
    child.once('error', () => reject(new Error('go was not found')));
    child.once('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(complaint.trim().split('\n').at(-1) || `go install: exit code ${code}`));
    });
  });
}
