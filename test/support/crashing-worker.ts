// The worker, with a bomb: at planned activities it kills a process, itself or another, once for each line of the plan.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { isAlive } from '../../dev/signals.ts';
import { runWorker } from '../../worker/run.ts';
import type { CrashPlan } from './crash-plan.ts';

const file = process.env.PURSER_TEST_CRASH_PLAN!;

function crash(when: 'before' | 'after', step: string): void {
  const plan = JSON.parse(readFileSync(file, 'utf8')) as CrashPlan;
  const index = plan.left.findIndex((point) => point.when === when && point.step === step);
  const pid = plan.victim === 'worker' ? process.pid : plan.pid;
  if (index < 0 || pid === undefined || !isAlive(pid)) return;
  plan.left.splice(index, 1);
  // The process that was killed is gone; the next one is told by the test.
  delete plan.pid;
  writeFileSync(`${file}.new`, JSON.stringify(plan));
  renameSync(`${file}.new`, file);
  process.kill(pid, 'SIGKILL');
}

type Activity = (...args: unknown[]) => Promise<unknown>;

function wrap<A extends object>(activities: A): A {
  const wrapped = Object.entries(activities as Record<string, Activity>).map(([step, run]) => [
    step,
    async (...args: unknown[]) => {
      crash('before', step);
      const result = await run(...args);
      crash('after', step);
      return result;
    },
  ]);
  return Object.fromEntries(wrapped) as A;
}

await runWorker({ env: process.env, wrap });
process.exit(0);
