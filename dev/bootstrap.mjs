#!/usr/bin/env node
// The one door of every npm script: makes sure that the locked packages are there, then runs the given TypeScript
// file (or the named program of node_modules/.bin) on the Node that the lock file pins. Plain JavaScript without
// dependencies, because it runs before anything is installed, on any Node from version 20 on.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const OLDEST_NODE = 20;
/** What a complete `npm ci` needs on the disk, downloads included. */
const INSTALL_BYTES = 1_200_000_000;
/** How long a second command waits for an installation that a first one has begun. */
const INSTALL_WAIT_MS = 15 * 60_000;
const PARENT_POLL_MS = 500;

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const modules = join(root, 'node_modules');
const lockPath = join(root, '.cache', 'install.lock');

/** Ends with one sentence; nobody reads a stack trace of an installer. */
function fail(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}

/** Free bytes for an unprivileged writer where the packages go. */
function freeBytes() {
  const { bavail, bsize } = statfsSync(root);
  return bavail * bsize;
}

const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(1)} GB`;
const diskSentence = () =>
  `Not enough space on the disk of ${root}: ${gigabytes(freeBytes())} are free, installing the packages needs about ${gigabytes(INSTALL_BYTES)}. Free some space and run the command again.`;

/**
 * True when node_modules holds exactly what package-lock.json asks for. npm writes its own record of what it has
 * installed as the last step, so an interrupted installation, too, is seen here. Packages for other platforms are
 * marked optional in the lock file and may be missing.
 */
function isInstalled() {
  const record = join(modules, '.package-lock.json');
  if (!existsSync(record)) return false;
  const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages;
  const present = JSON.parse(readFileSync(record, 'utf8')).packages;
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === '') return true;
    const found = present[path];
    if (!found) return Boolean(entry.optional || entry.devOptional || entry.peer);
    return found.version === entry.version && found.integrity === entry.integrity;
  });
}

/** Takes the installation lock; false when a living process holds it. */
function takeInstallLock() {
  mkdirSync(dirname(lockPath), { recursive: true });
  try {
    writeFileSync(lockPath, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    const holder = Number(readFileSync(lockPath, 'utf8'));
    if (holder > 0 && isAlive(holder)) return false;
    rmSync(lockPath, { force: true });
    return takeInstallLock();
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

async function install() {
  const deadline = Date.now() + INSTALL_WAIT_MS;
  for (let told = false; !takeInstallLock(); told = true) {
    if (!told) process.stderr.write('Another command is installing the packages; waiting for it …\n');
    if (Date.now() > deadline)
      fail(`Another installation has not ended in time; if none is running, delete ${lockPath}.`);
    await new Promise((resolve) => setTimeout(resolve, PARENT_POLL_MS));
  }
  try {
    if (isInstalled()) return;
    if (freeBytes() < INSTALL_BYTES) fail(diskSentence());
    runNpmCi();
  } finally {
    rmSync(lockPath, { force: true });
  }
}

function runNpmCi() {
  process.stderr.write('Installing the packages of package-lock.json (first time or changed; about a minute) …\n');
  const from = Date.now();
  const viaNpm = process.env.npm_execpath?.endsWith('.js');
  const [command, first] = viaNpm ? [process.execPath, [process.env.npm_execpath]] : ['npm', []];
  const done = spawnSync(command, [...first, 'ci', '--no-audit', '--no-fund', '--include=dev'], {
    cwd: root,
    stdio: 'inherit',
  });
  if (done.error?.code === 'ENOENT')
    fail('npm was not found; install Node.js with npm (https://nodejs.org) and run the command again.');
  if (done.signal) process.exit(130);
  if (done.status !== 0) {
    const full = freeBytes() < INSTALL_BYTES / 10;
    fail(
      full
        ? diskSentence()
        : `npm ci failed with exit code ${done.status}; its message is above. Check the connection to the package registry and run the command again.`,
    );
  }
  if (!isInstalled())
    fail(
      'npm ci ended without installing what package-lock.json lists; delete node_modules and run the command again.',
    );
  process.stderr.write(`Packages installed in ${((Date.now() - from) / 1000).toFixed(0)} s.\n`);
}

/** The parent of a process, or undefined where the system does not say so (then only our own parent is watched). */
function parentOf(pid) {
  try {
    return Number(
      readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')[1],
    );
  } catch {
    return undefined;
  }
}

/** Runs the target with our terminal, hands on signals, and ends as it ends. */
function run(target, args) {
  const isScript = target.endsWith('.ts');
  const program = join(modules, '.bin', isScript ? 'node' : target);
  if (!existsSync(program)) fail(`${program} is missing; delete node_modules and run the command again.`);
  // The channel tells a script that we are gone, even after kill -9; see dev/start.ts.
  const stdio = ['inherit', 'inherit', 'inherit', ...(isScript ? ['ipc'] : [])];
  // First on the PATH, so that programs written in JavaScript find the pinned Node as well.
  const env = { ...process.env, PATH: [join(modules, '.bin'), process.env.PATH].join(delimiter) };
  const child = spawn(program, isScript ? [join(root, target), ...args] : args, { cwd: root, stdio, env });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => fail(`${program} could not be started: ${error.message}.`));
  child.on('exit', (code, signal) => process.exit(signal ? 128 + (signal === 'SIGINT' ? 2 : 15) : (code ?? 1)));
  watchNpm(() => child.kill('SIGTERM'));
}

/** npm killed with -9 cannot tell us; its shell may stay between us. So watch parent and grandparent. */
function watchNpm(onGone) {
  if (!process.env.npm_lifecycle_event) return;
  const parent = process.ppid;
  const grandparent = parentOf(parent);
  const timer = setInterval(() => {
    if (process.ppid === parent && parentOf(parent) === grandparent) return;
    clearInterval(timer);
    onGone();
  }, PARENT_POLL_MS);
  timer.unref();
}

const [target, ...args] = process.argv.slice(2);
if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE)
  fail(`Node.js ${OLDEST_NODE} or newer is needed to begin; this is ${process.versions.node}. See https://nodejs.org.`);
if (!target) fail('Usage: node dev/bootstrap.mjs FILE.ts|PROGRAM [argument …]');
if (!isInstalled()) await install();
run(target, args);
