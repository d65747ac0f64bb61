import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addRecovery, type KillKind, type Recovery } from './recovery.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const file = fileURLToPath(new URL('./results.json', import.meta.url));
/** What may change without the product being another one. */
const apart = /\.md$|^(test|bench)\//;

/** Which state of the sources was run. */
export interface Product {
  readonly commit: string;
  /** Whether the product's files differ from that commit. */
  readonly dirty: boolean;
  /** SHA-256 over names and contents of the product's files; the same for commits that differ in tests and words only. */
  readonly product: string;
}

/** All runs of one product added up. */
export interface Entry extends Product {
  readonly rounds: number;
  readonly payments: number;
  readonly faults: number;
  readonly kills: Partial<Record<KillKind, number>>;
  readonly strikes: Readonly<Record<string, number>>;
  readonly seconds: number;
  readonly recoveryMs: Recovery;
}

export function readProduct(): Product {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 1e8 });
  const names = git('ls-files', '-z', '--cached', '--others', '--exclude-standard')
    .split('\0')
    .filter((name) => name !== '' && !apart.test(name) && existsSync(join(root, name)));
  const hash = createHash('sha256');
  for (const name of names.toSorted()) {
    const content = createHash('sha256')
      .update(readFileSync(join(root, name)))
      .digest('hex');
    hash.update(`${name}\0${content}\n`);
  }
  const changed = git('status', '--porcelain', '-z', '--untracked-files=all', '--no-renames').split('\0');
  return {
    commit: git('rev-parse', 'HEAD').trim(),
    dirty: changed.some((line) => line !== '' && !apart.test(line.slice(3))),
    product: hash.digest('hex'),
  };
}

/** Adds a run to what is known of its product at that commit. @returns everything about it */
export function addResult(run: Entry): Entry {
  const known = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Entry[]) : [];
  const isSame = (entry: Entry) => entry.commit === run.commit && entry.product === run.product;
  const before = known.find(isSame);
  const sum = before ? addEntries(before, run) : run;
  const entries = before ? known.map((entry) => (isSame(entry) ? sum : entry)) : [...known, run];
  writeFileSync(file, `[\n${entries.map((entry) => JSON.stringify(entry)).join(',\n')}\n]\n`);
  return sum;
}

function addEntries(a: Entry, b: Entry): Entry {
  return {
    ...b,
    rounds: a.rounds + b.rounds,
    payments: a.payments + b.payments,
    faults: a.faults + b.faults,
    kills: addCounts(a.kills, b.kills),
    strikes: addCounts(a.strikes, b.strikes),
    seconds: a.seconds + b.seconds,
    recoveryMs: addRecovery(a.recoveryMs, b.recoveryMs),
  };
}

/** Both counts as one, by name. */
export function addCounts<T extends object>(a: T, b: T): T {
  const sum = { ...a } as Record<string, number>;
  for (const [name, count] of Object.entries(b as Record<string, number>)) sum[name] = (sum[name] ?? 0) + count;
  return sum as T;
}
