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
  'test/schemathesis/run.ts',
];

describe('every command', () => {
  it.each(programs)('tells how it is used, and what of its command line it does not know: %s', async (program) => {
    const [help, wrong] = await Promise.all([run(program, '--help'), run(program, '--no-such-option', '--json')]);
    expect(JSON.parse(wrong.out)).toEqual({ error: { code: 'usage', message: expect.any(String) } });
    expect(help).toMatchObject({ status: 0, err: '' });
    expect(help.out).toMatch(/usage: /i);
    expect(wrong.status).toBe(2);
    expect(wrong.err).not.toMatch(/^\s+at /m);
  });

  it.each([
    ['dev/sign-in.ts', ['ann@example.com'], 1, 'failed', /dev\.json cannot be read/],
    ['api/admin.ts', ['frozen'], 2, 'usage', /DATABASE_URL/],
    ['signer/cli/main.ts', ['status'], 2, 'usage', /signers\.json/],
    ['signer/recover/main.ts', ['--backup', 'a'], 2, 'usage', /--backup must be given twice/],
    ['sdk/verify-audit-export.ts', ['nothing-there'], 2, 'failed', /nothing-there/],
    ['shared/db/migrate.ts', [], 1, 'failed', /DATABASE_OWNER_URL is missing/],
  ] as const)(
    'says why it failed, with --json as one JSON value: %s %j',
    async (program, args, status, code, words) => {
      const [plain, told] = await Promise.all([run(program, ...args), run(program, ...args, '--json')]);
      expect(plain).toMatchObject({ status, out: '', err: expect.stringMatching(words) });
      expect(told).toMatchObject({ status, err: plain.err });
      expect(JSON.parse(told.out)).toEqual({ error: { code, message: expect.stringMatching(words) } });
    },
  );

  const file = (name: string) => join(elsewhere, name);
  it.each<[string, (as: string) => string[], RegExp, Record<string, unknown>]>([
    [
      'signer/init.ts',
      (as) => ['--kind', 'signer', '--dir', file(`signer-${as}`)],
      /^public key: \S+$/m,
      { publicKey: expect.any(String) },
    ],
    [
      'api/init-token-keys.ts',
      (as) => ['--keys', file(`tokens-${as}`)],
      /^rotated: no$/m,
      { keys_file: file('tokens-json'), rotated: false, keys: [expect.any(String)] },
    ],
    [
      'worker/init-webhook-keys.ts',
      (as) => ['--keys', file(`webhooks-${as}`), '--public', file(`public-${as}`)],
      /^public key file: /m,
      { public_key_file: file('public-json'), rotated: false },
    ],
    ['signer/cli/main.ts', (as) => ['backup-key', '--file', file(`age-${as}`)], /^recipient: age1/m, {}],
    ['signer/cli/main.ts', (as) => ['owner-key', 'new', '--file', file(`owner-${as}`)], /^owner key: /m, {}],
    ['sdk/verify-audit-export.ts', () => ['/dev/null'], /^Valid: 0 entries/, { valid: true, checked: 0, line: null }],
  ])('prints for people, with --json exactly one JSON value: %s', async (program, args, words, result) => {
    const [plain, told] = await Promise.all([run(program, ...args('text')), run(program, ...args('json'), '--json')]);
    expect(plain).toMatchObject({ status: 0, err: '', out: expect.stringMatching(words) });
    expect(told).toMatchObject({ status: 0, err: '' });
    expect(JSON.parse(told.out)).toMatchObject(result);
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
