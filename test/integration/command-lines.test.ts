import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** Nothing runs here: a command that went on to work would say so. */
const elsewhere = mkdtempSync(join(tmpdir(), 'purser-commands-'));
afterAll(() => rmSync(elsewhere, { recursive: true, force: true }));

function run(...args: string[]): Promise<{ status: number; out: string; err: string }> {
  const env = { PATH: process.env.PATH, PURSER_HOME: elsewhere };
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: root, env, timeout: 150_000 }, (error, out, err) => {
      resolve({ status: error === null ? 0 : Number(error.code ?? -1), out, err });
    });
  });
}

const programs = [
  ...['dev/start.ts', 'dev/demo.ts', 'dev/check.ts', 'dev/sign-in.ts', 'bench/main.ts', 'bench/crash/main.ts'],
  ...['api/admin.ts', 'signer/cli/main.ts', 'signer/recover/main.ts', 'sdk/verify-audit-export.ts'],
  ...['signer/init.ts', 'api/init-token-keys.ts', 'worker/init-webhook-keys.ts', 'shared/db/migrate.ts'],
];

describe('every command', () => {
  it.each(programs)('tells how it is used, and what of its command line it does not know: %s', async (program) => {
    const [help, wrong] = await Promise.all([run(program, '--help'), run(program, '--no-such-option')]);
    expect(help).toMatchObject({ status: 0, err: '' });
    expect(help.out).toMatch(/usage: /i);
    expect(wrong.status).toBe(2);
    expect(wrong.out).toBe('');
    expect(wrong.err).not.toMatch(/^\s+at /m);
  });

  it.each([
    ['signer/cli/main.ts', 'status'],
    ['signer/cli/main.ts', 'limits', 'set'],
    ['signer/cli/main.ts', 'freeze'],
    ['api/admin.ts', 'account', 'create'],
    ['api/admin.ts', 'freeze'],
    ['api/admin.ts', 'doctor'],
    ['api/admin.ts', 'reconcile'],
  ])('of a command with words, each one does: %j', async (program, ...words) => {
    const { status, out } = await run(program, ...words, '--help');
    expect(status).toBe(0);
    expect(out).toContain(words.join(' '));
  });
});
