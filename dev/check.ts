// npm run check: types, lint and format, unused code, folder arrows. Runs all of them, then says which failed.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readCommandLine } from '../shared/command-line.ts';

readCommandLine(
  `Usage: npm run check

  Types, lint and format, unused code, arrows between folders. Exit status: 0 all passed, 1 something failed, 2 the command
  line is wrong.`,
  {},
);

const root = fileURLToPath(new URL('..', import.meta.url));
const program = (name: string) => fileURLToPath(new URL(`../node_modules/.bin/${name}`, import.meta.url));
const folders = ['api', 'workflows', 'activities', 'worker', 'signer', 'shared', 'sdk', 'dev', 'bench', 'test'];

/** Name for the reader, then the command. */
const checks: [string, string, string[]][] = [
  ['types (tsc)', 'tsc', ['--noEmit', '-p', '.']],
  ['lint and format (biome)', 'biome', ['ci', '--colors=off']],
  ['unused code (knip)', 'knip', ['--no-progress', '--treat-config-hints-as-errors']],
  [
    'folder arrows (dependency-cruiser)',
    'depcruise',
    ['--config', '.dependency-cruiser.cjs', ...folders.filter((folder) => existsSync(`${root}/${folder}`))],
  ],
];

const failed: string[] = [];
for (const [name, command, args] of checks) {
  const from = performance.now();
  console.log(`— ${name}`);
  const { status, error } = spawnSync(program(command), args, { cwd: root, stdio: 'inherit' });
  if (error) console.error(error.message);
  const seconds = ((performance.now() - from) / 1000).toFixed(1);
  console.log(`  ${status === 0 ? 'passed' : 'FAILED'} in ${seconds} s`);
  if (status !== 0) failed.push(name);
}

console.log(failed.length === 0 ? 'All checks passed.' : `Failed: ${failed.join(', ')}.`);
process.exit(failed.length === 0 ? 0 : 1);
