import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const migrations = 'shared/db/migrations';
/** The whole source, without packages, is some 10 MB. */
const archiveBytesMax = 100_000_000;

/** The code of the version that was released last. */
export interface ReleasedCode {
  readonly commit: string;
  /** The last migration that it knows. */
  readonly migration: string;
}

/**
 * Finds, in the history of this clone, the version that was released last: the one before the first migration that no dump
 * of a released version has.
 * @throws Error with one sentence where there is no such history, or every migration has been released
 */
function findReleasedCode(): ReleasedCode {
  const released = readdirSync(join(root, 'test/upgrade/dumps'))
    .sort()
    .at(-1)!
    .replace(/\.sql$/, '');
  const names = readdirSync(join(root, migrations)).sort();
  const next = names.find((name) => name.slice(0, released.length) > released);
  if (!next) throw new Error(`Every migration has been released with ${released}: there is no other schema yet.`);
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', root, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    const path = `${migrations}/${next}`;
    const added = git('log', '--format=%H', '--diff-filter=A', '--', path).split('\n').at(-1)!;
    const commit = git('rev-parse', '--verify', `${added}^`);
    const last = git('ls-tree', '--name-only', commit, `${migrations}/`).split('\n').sort().at(-1)!;
    if (!last.startsWith(`${migrations}/${released}_`)) throw new Error(last);
    return { commit, migration: last.slice(migrations.length + 1).replace(/\.sql$/, '') };
  } catch (cause) {
    throw new Error(
      `This clone has no history from before ${next}: the released version cannot be run (git fetch --unshallow).`,
      { cause },
    );
  }
}

/** The same, with the reason where there is none. */
export function tryFindReleasedCode(): ReleasedCode | { readonly reason: string } {
  try {
    return findReleasedCode();
  } catch (error) {
    return { reason: (error as Error).message };
  }
}

/** Puts it into a folder of its own, with the packages of this version. */
export function unpackReleasedCode({ commit }: ReleasedCode): { dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'purser-released-'));
  const archive = execFileSync('git', ['-C', root, 'archive', commit], { maxBuffer: archiveBytesMax });
  execFileSync('tar', ['-x', '-C', dir], { input: archive });
  symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'));
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}
