// npm run check: types, lint and format, unused code, folder arrows. Runs all of them, then says which failed.
import { type StdioOptions, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { printResult, readCommandLine } from '../shared/command-line.ts';

const { json } = readCommandLine(
  `Usage: npm run check [-- --json]

  Types, lint and format, unused code, arrows between folders. Exit status: 0 all passed, 1 something failed, 2 the command
  line is wrong. With --json the result is one JSON value, and everything else on the error output.`,
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

/** With `--json` the output belongs to the result. */
const say = json ? console.error : console.log;
const stdio: StdioOptions = json ? ['inherit', 2, 2] : 'inherit';
const failed: string[] = [];
for (const [name, command, args] of checks) {
  const from = performance.now();
  say(`— ${name}`);
  const { status, error } = spawnSync(program(command), args, { cwd: root, stdio });
  if (error) console.error(error.message);
  const seconds = ((performance.now() - from) / 1000).toFixed(1);
  say(`  ${status === 0 ? 'passed' : 'FAILED'} in ${seconds} s`);
  if (status !== 0) failed.push(name);
}

const show = () => (failed.length === 0 ? 'All checks passed.' : `Failed: ${failed.join(', ')}.`);
printResult({ ok: failed.length === 0, failed }, { json, show });
process.exit(failed.length === 0 ? 0 : 1);
