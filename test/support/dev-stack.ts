import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { DevFacts } from '../../dev/home.ts';

const START_TIMEOUT_MS = 300_000;
const POLL_MS = 100;

/** `npm start` as a user runs it, on ports and in a home of its own. */
export interface DevStack {
  /** Process id of npm, which leads a process group like a job of a terminal. */
  pid: number;
  output(): string;
  /** Resolves when the output contains the text; rejects, with the output, when it ends before or takes too long. */
  says(text: string, o?: { timeoutMs?: number }): Promise<void>;
  /** What stands in dev.json. */
  facts(): DevFacts;
  /** Signals all processes of the job at once, as Ctrl-C in a terminal does. */
  signalJob(signal: NodeJS.Signals): void;
  /** Of npm; null when it ended by the signal, as it does when the whole job is signalled. */
  exitCode: Promise<number | null>;
}

const freePorts = {
  PURSER_PORT: '0',
  PURSER_TEMPORAL_PORT: '0',
  PURSER_TEMPORAL_UI_PORT: '0',
  PURSER_POSTGRES_PORT: '0',
  PURSER_RPC_PORT: '0',
  PURSER_SIGNER_PORTS: '0',
  PURSER_MAIL_PORT: '0',
  PURSER_SMTP_PORT: '0',
  PURSER_PROVIDER_PORT: '0',
  PURSER_BITCOIN_PORT: '0',
};

/** Starts it; see `says('is running')` for when it is up. */
export function npmStart(o: { cwd: string; home: string; args?: string[]; env?: NodeJS.ProcessEnv }): DevStack {
  const args = ['start', ...(o.args ? ['--', ...o.args] : [])];
  const env = { ...process.env, ...freePorts, PURSER_HOME: o.home, ...o.env };
  const child: ChildProcess = spawn('npm', args, {
    cwd: o.cwd,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      output += chunk.toString('utf8');
    });
  }
  let ended = false;
  child.once('close', () => {
    ended = true;
  });
  const exitCode = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const pid = child.pid!;
  return {
    pid,
    output: () => output,
    async says(text, { timeoutMs = START_TIMEOUT_MS } = {}) {
      const deadline = Date.now() + timeoutMs;
      while (!output.includes(text)) {
        if (ended || Date.now() > deadline) throw new Error(`npm start never said "${text}":\n${output}`);
        await delay(POLL_MS);
      }
    },
    facts: () => JSON.parse(readFileSync(`${o.home}/dev.json`, 'utf8')) as DevFacts,
    signalJob: (signal) => process.kill(-pid, signal),
    exitCode,
  };
}

/** A process that has to do with a stack. */
export interface StackProcess {
  pid: number;
  command: string;
}

/** All processes that have the stack's home in their command line or environment. Needs /proc. */
export function processesOf(home: string): StackProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((name) => {
      try {
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8');
        const environment = readFileSync(`/proc/${name}/environ`, 'utf8');
        // Postgres writes its title over its arguments; its environment and working directory stay.
        const mine = `${command}${environment}`.includes(home);
        return mine ? [{ pid: Number(name), command: command.replaceAll('\0', ' ') }] : [];
      } catch {
        return [];
      }
    });
}

/** Waits until nothing of a stack is left; throws with the list of what still runs. */
export async function nothingLeft(home: string, o: { timeoutMs: number }): Promise<void> {
  const deadline = Date.now() + o.timeoutMs;
  for (;;) {
    const left = processesOf(home);
    if (left.length === 0) return;
    if (Date.now() > deadline)
      throw new Error(`Still running: ${left.map((one) => `${one.pid} ${one.command}`).join('\n')}`);
    await delay(POLL_MS);
  }
}
