/**
 * Guards the children of a stack against the sudden death of their parent.
 *
 * A process that is killed with -9 can stop nothing. So the parent starts this program first and holds the other end
 * of its standard input: one line `+ PID SIGNAL` for each child that starts, `- PID` for each that has ended. When the
 * input ends (the kernel closes it, whatever the parent died of), the children that are left are stopped, the youngest
 * first. The guard and the children are in sessions of their own, so that Ctrl-C in a terminal reaches only the parent,
 * which then stops them in order.
 */
import { createInterface } from 'node:readline';
import { isAlive, signalGroup, waitForDeath } from './signals.ts';

/** How long one child may take to stop before it is killed. */
const STOP_TIMEOUT_MS = 10_000;

const children = new Map<number, NodeJS.Signals>();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

for await (const line of createInterface({ input: process.stdin })) {
  const [action, pid, signal] = line.split(' ');
  if (action === '+') children.set(Number(pid), signal as NodeJS.Signals);
  else children.delete(Number(pid));
}

for (const [pid, signal] of [...children].reverse()) {
  if (isAlive(pid)) {
    process.kill(pid, signal);
    await waitForDeath({ pid, timeoutMs: STOP_TIMEOUT_MS });
  }
  signalGroup(pid, 'SIGKILL');
}
