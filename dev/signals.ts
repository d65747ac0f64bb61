import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 20;

/** True while a process with this id exists. A process that belongs to somebody else counts as alive. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Signals a process that leads a group, and all that it has started; silent when nothing is left of it. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Resolves to true when the process has ended, to false when it still lives after `timeoutMs`. */
export async function waitForDeath(o: { pid: number; timeoutMs: number }): Promise<boolean> {
  const deadline = Date.now() + o.timeoutMs;
  while (isAlive(o.pid)) {
    if (Date.now() > deadline) return false;
    await delay(POLL_MS);
  }
  return true;
}
