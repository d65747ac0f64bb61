import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, fstatSync, mkdirSync, openSync, readSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { signalGroup } from './signals.ts';

/** A log file larger than this is set aside (`NAME.log.1`) when its process starts anew. */
const LOG_LIMIT_BYTES = 20_000_000;
/** How much of the end of a log is searched for the reason of a death. */
const TAIL_BYTES = 8_192;
const POLL_MS = 25;

/** See dev/guard.ts: stops what is left of the children when this process dies, also by kill -9. */
export interface Guard {
  add(pid: number, stopSignal: NodeJS.Signals): void;
  remove(pid: number): void;
  /** True once `stop` was called: nothing may be started any more. */
  isStopping(): boolean;
  /** Ends the guard. Children that are still registered are stopped by it. */
  stop(): Promise<void>;
}

/** One running child process. */
export interface Child {
  readonly name: string;
  readonly pid: number;
  /** Resolves when the process has ended, whatever the reason: "exit code 1" or "SIGKILL". */
  readonly exited: Promise<string>;
  /** Undefined while the process runs; afterwards how it ended. */
  readonly exit: () => string | undefined;
  /** The last line that says something in the process's log, to explain a death. */
  lastWords(): string;
  /** Sends the stop signal, and SIGKILL to it and its children after `stopTimeoutMs`. Safe to call twice. */
  stop(): Promise<void>;
}

/** A process ended or did not become ready; the message is one sentence for the user. */
export class ProcessFailed extends Error {
  override name = 'ProcessFailed';
}

/** Starts the guard process. One for each stack; see {@link Guard}. */
export function startGuard(): Guard {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./guard.ts', import.meta.url))], {
    stdio: ['pipe', 'ignore', 'inherit'],
    detached: true,
  });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  // A guard that was killed must not take the stack with it.
  child.stdin.on('error', () => {});
  child.unref();
  let stopping = false;
  return {
    isStopping: () => stopping,
    add: (pid, stopSignal) => child.stdin.write(`+ ${pid} ${stopSignal}\n`),
    remove: (pid) => child.stdin.write(`- ${pid}\n`),
    async stop() {
      stopping = true;
      child.ref();
      child.stdin.end();
      await exited;
    },
  };
}

export interface StartProcessOptions {
  /** Name for messages, such as `worker`. */
  name: string;
  command: string;
  args: string[];
  /** The whole environment of the child; nothing is inherited beyond it. */
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** Standard output and error go here, appended. */
  logFile: string;
  /** Signal for an orderly stop; default SIGTERM. */
  stopSignal?: NodeJS.Signals;
  /** Time for an orderly stop before SIGKILL; default 10 s. */
  stopTimeoutMs?: number;
  /** User and group to run as; only root may give them. */
  uid?: number;
  gid?: number;
}

/**
 * Starts a child process in a session of its own, with its output in a file, and registers it with the guard.
 * Throws {@link ProcessFailed} when the program cannot be started at all.
 */
export async function startProcess(guard: Guard, o: StartProcessOptions): Promise<Child> {
  const { stopSignal = 'SIGTERM', stopTimeoutMs = 10_000 } = o;
  if (guard.isStopping()) throw new ProcessFailed(`${o.name} is not started: everything is being stopped.`);
  const log = openLog(o.logFile);
  const from = fstatSync(log).size;
  const child = spawn(o.command, o.args, {
    env: o.env,
    stdio: ['ignore', log, log],
    detached: true,
    ...(o.cwd === undefined ? {} : { cwd: o.cwd }),
    ...(o.uid === undefined ? {} : { uid: o.uid }),
    ...(o.gid === undefined ? {} : { gid: o.gid }),
  });
  if (child.pid !== undefined) guard.add(child.pid, stopSignal);
  closeSync(log);
  await started(child, o);
  const pid = child.pid!;
  let exit: string | undefined;
  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => {
      exit = signal ?? `exit code ${code}`;
      guard.remove(pid);
      resolve(exit);
    });
  });
  return {
    name: o.name,
    pid,
    exited,
    exit: () => exit,
    lastWords: () => lastLine(o.logFile, from),
    async stop() {
      if (exit === undefined) child.kill(stopSignal);
      const timer = setTimeout(() => signalGroup(pid, 'SIGKILL'), stopTimeoutMs);
      await exited;
      clearTimeout(timer);
    },
  };
}

/** Polls `check` until it resolves without throwing; ends early, with the reason, when the child dies. */
export async function waitUntilReady(
  child: Child,
  o: { timeoutMs: number; check: () => Promise<unknown> },
): Promise<void> {
  const deadline = Date.now() + o.timeoutMs;
  for (;;) {
    const exit = child.exit();
    if (exit) throw new ProcessFailed(`${child.name} stopped while starting (${exit}): ${child.lastWords()}`);
    const failure = await o.check().then(
      () => undefined,
      (error: unknown) => error,
    );
    if (failure === undefined) return;
    if (Date.now() > deadline) {
      const seconds = o.timeoutMs / 1000;
      throw new ProcessFailed(
        `${child.name} was not ready after ${seconds} s: ${String(failure)}. ${child.lastWords()}`,
      );
    }
    await delay(POLL_MS);
  }
}

function started(child: ChildProcess, o: StartProcessOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (error) => reject(new ProcessFailed(`${o.name} could not be started: ${error.message}.`)));
  });
}

function openLog(path: string): number {
  mkdirSync(dirname(path), { recursive: true });
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > LOG_LIMIT_BYTES) renameSync(path, `${path}.1`);
  return openSync(path, 'a');
}

function lastLine(path: string, from: number): string {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const length = Math.min(TAIL_BYTES, Math.max(0, size - from));
  if (length === 0) return `it wrote nothing to ${path}.`;
  const buffer = Buffer.alloc(length);
  const file = openSync(path, 'r');
  readSync(file, buffer, 0, length, size - length);
  closeSync(file);
  const lines = buffer
    .toString('utf8')
    .split('\n')
    .filter((line) => line.trim() !== '');
  // An error with its stack names itself first; other programs end with what matters.
  const words = lines.findLast((line) => /^\S*Error\b.*:/.test(line)) ?? lines.at(-1) ?? '';
  return `${words.trim()} (see ${path})`;
}
