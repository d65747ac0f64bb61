import { spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { printResult, readArguments } from '../../shared/command-line.ts';
import { startMerchant } from '../support/merchant.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';
import { makeThings, openOther, type Words } from './things.ts';

// Holds a whole installation against its own OpenAPI document: once with an API key, once with an access token.

const usage = `Usage: npm run schemathesis [-- --st PROGRAM] [--results FILE] [--json] [-- ARGUMENT …]

  --st PROGRAM      Schemathesis; default st
  --results FILE    where the counts go as JSON
  --json            prints the counts as one JSON value, and everything else on the error output
  --help            this text

  What follows a second -- is for Schemathesis, such as --include-operation-id createAgent. Exit status: 0 both passes found
  nothing, 1 one found something or failed, 2 the command line is wrong.
`;

/** Of a pass; a minute is usual on two cores, several where they are busy with something else. */
const longestPassMs = 15 * 60_000;

interface Pass {
  readonly name: string;
  /** Headers of our credential, and of one of another account. */
  readonly credentials: { readonly ours: Header; readonly theirs: Header };
  /** Operations that are not asked. */
  readonly without: readonly string[];
}
interface Header {
  readonly name: string;
  readonly value: string;
}

const { values, positionals } = readArguments(usage, {
  options: { st: { type: 'string', default: 'st' }, results: { type: 'string' } },
  allowPositionals: true,
});
process.exitCode = (await main({ ...values, more: positionals })) === 0 ? 0 : 1;

interface Wanted {
  readonly st: string;
  readonly results?: string | undefined;
  readonly json?: boolean | undefined;
  /** Further arguments of the program. */
  readonly more: readonly string[];
}

async function main({ st, results, json = false, more }: Wanted): Promise<number> {
  // Wrong credentials are sent for every operation, from one address.
  const stack = await startOwnStack({ env: { PURSER_FAILED_AUTH_PER_MINUTE: '10000' } });
  const merchant = await startMerchant({ rpcUrl: stack.rpcUrl, token: stack.usdcAddress });
  try {
    const words = await makeThings(stack, { merchant });
    const failed: string[] = [];
    const passes = await passesOf(stack);
    for (const pass of passes) {
      (json ? console.error : console.log)(`\nSchemathesis, ${pass.name}`);
      const code = await runPass({ st, json, more, pass, words, baseUrl: stack.baseUrl });
      if (code !== 0) failed.push(pass.name);
    }
    const counts = { passed: passes.length - failed.length, failed: failed.length };
    if (results !== undefined) writeFileSync(results, JSON.stringify(counts));
    const show = () => `schemathesis: ${counts.passed} passed, ${counts.failed} failed`;
    printResult(counts, { json, show });
    return failed.length;
  } finally {
    await merchant.stop();
    await stack.stop();
  }
}

async function passesOf(stack: OwnStack): Promise<Pass[]> {
  const other = await openOther(stack);
  const key = (value: string) => ({ name: 'X-API-Key', value });
  const bearer = (token: string) => ({ name: 'Authorization', value: `Bearer ${token}` });
  return [
    {
      name: 'with an API key',
      credentials: { ours: key(stack.apiKey), theirs: key(other.key) },
      // A key is refused by these whatever it asks for (403), which is told apart from a missing credential (401).
      without: await operationsForPeople(stack.baseUrl),
    },
    {
      name: 'with an access token',
      credentials: {
        ours: bearer(await stack.token('owner@example.com')),
        theirs: bearer(await stack.token('other@example.com', { accountId: other.accountId })),
      },
      // It would end the session that all the others are asked with.
      without: ['signOut'],
    },
  ];
}

async function operationsForPeople(baseUrl: string): Promise<string[]> {
  const response = await fetch(`${baseUrl}/openapi.json`);
  const { paths } = (await response.json()) as { paths: Record<string, Record<string, Operation>> };
  const operations = Object.values(paths).flatMap((path) => Object.values(path));
  const isForPeople = ({ security }: Operation) => security?.length === 1 && 'accessToken' in security[0]!;
  return operations.filter(isForPeople).map(({ operationId }) => operationId);
}
interface Operation {
  readonly operationId: string;
  readonly security?: readonly object[];
}

/** @returns the exit code of the program, or 1 */
async function runPass(o: {
  st: string;
  json: boolean;
  more: readonly string[];
  pass: Pass;
  words: Words;
  baseUrl: string;
}): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), 'purser-schemathesis-'));
  try {
    for (const name of ['schemathesis.toml', 'hooks.py'])
      copyFileSync(fileURLToPath(new URL(name, import.meta.url)), join(dir, name));
    for (const [name, words] of Object.entries(o.words))
      writeFileSync(join(dir, `${name}.dict`), words.map((word) => `${JSON.stringify(word)}\n`).join(''));
    const auth = Object.entries(o.pass.credentials).map(([name, header]) => ({ name, fixedHeaders: [header] }));
    writeFileSync(join(dir, 'credentials.json'), JSON.stringify({ auth }));
    const without = o.pass.without.flatMap((operationId) => ['--exclude-operation-id', operationId]);
    const args = ['run', `${o.baseUrl}/openapi.json`, '--checks', 'all', '--no-color', ...without, ...o.more];
    return await new Promise((resolve, reject) => {
      const child = spawn(o.st, args, {
        cwd: dir,
        stdio: ['ignore', o.json ? 2 : 'inherit', 'inherit'],
        timeout: longestPassMs,
      });
      child.once('error', reject);
      child.once('exit', (code) => resolve(code ?? 1));
    });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
