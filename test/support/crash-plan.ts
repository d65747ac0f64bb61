import { readFileSync, renameSync, writeFileSync } from 'node:fs';

/** When to kill: around an activity, by its name. */
export interface CrashPoint {
  readonly when: 'before' | 'after';
  readonly step: string;
}

/** What the crashing worker reads before each activity. */
export interface CrashPlan {
  victim: string;
  /** Process to be killed next; absent while it is being started again. */
  pid?: number;
  left: CrashPoint[];
}

export function readPlan(file: string): CrashPlan {
  return JSON.parse(readFileSync(file, 'utf8')) as CrashPlan;
}

export function writePlan(file: string, plan: CrashPlan): void {
  writeFileSync(`${file}.test`, JSON.stringify(plan));
  renameSync(`${file}.test`, file);
}
