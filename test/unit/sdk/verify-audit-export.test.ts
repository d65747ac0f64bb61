import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyAuditExport } from '../../../sdk/verify-audit-export.ts';
import type { AuditEntry } from '../../../shared/audit-chain.ts';
import { chainOf } from '../../support/audit-chains.ts';

const chain = chainOf([{}, { metadata: { text: 'a\u2028b\u2029c\r\u0085d\u0000 "\\ Ω 🙂' } }, {}, {}, {}]);
const lines = (entries: readonly unknown[]) => entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');
const place = ({ seq, hash }: AuditEntry) => ({ seq, hash });
const head = place(chain[4]!);

describe('an export that is verified offline', () => {
  it('is valid as it was made, in pieces of any length', () =>
    fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 400 }), async (length) => {
        const pieces = lines(chain).match(new RegExp(`[\\s\\S]{1,${length}}`, 'g'))!;
        expect(await verifyAuditExport(pieces, { head })).toEqual({
          valid: true,
          checked: 5,
          last: head,
          brokenAt: null,
          reason: null,
          line: null,
        });
      }),
    ));

  it('is valid without a line feed at the end, with carriage returns, with empty lines at the end, and with nothing in it', async () => {
    expect(await verifyAuditExport([lines(chain).trimEnd()])).toMatchObject({ valid: true, checked: 5 });
    expect(await verifyAuditExport([lines(chain).replaceAll('\n', '\r\n')])).toMatchObject({ valid: true, checked: 5 });
    expect(await verifyAuditExport([`${lines(chain)}\n\n`])).toMatchObject({ valid: true, checked: 5 });
    expect(await verifyAuditExport([])).toMatchObject({ valid: true, checked: 0 });
  });

  it('shows the place where something was done to it', async () => {
    const found = async (entries: readonly unknown[]) => {
      const { reason, brokenAt, line } = await verifyAuditExport([lines(entries)], { head });
      return [reason, brokenAt, line];
    };
    expect(await found(chain.with(2, { ...chain[2]!, result: 'denied' }))).toEqual(['changed', 3, 3]);
    expect(await found(chain.toSpliced(2, 1))).toEqual(['missing', 3, 3]);
    expect(await found(chain.toSpliced(2, 0, chain[1]!))).toEqual(['inserted', 2, 3]);
    expect(await found(chain.with(1, chain[2]!).with(2, chain[1]!))).toEqual(['out_of_order', 2, 2]);
    expect(await found(chain.slice(0, 4))).toEqual(['cut_off', 5, 5]);
    expect(await found(chain.slice(1))).toEqual(['wrong_start', 1, 1]);
  });

  it('is broken where a line is no entry, as where the transfer was cut off', async () => {
    const whole = lines(chain);
    expect(await verifyAuditExport([whole.slice(0, -20)])).toMatchObject({ reason: 'changed', brokenAt: 5, line: 5 });
    expect(await verifyAuditExport([whole.replace('\n', '\n\n')])).toMatchObject({ reason: 'inserted', line: 2 });
  });

  it('goes on from a checkpoint', async () => {
    const rest = lines(chain.slice(2));
    expect(await verifyAuditExport([rest], { checkpoint: place(chain[1]!), head })).toMatchObject({ valid: true });
    expect(await verifyAuditExport([rest], { checkpoint: place(chain[0]!) })).toMatchObject({ reason: 'wrong_start' });
  });
});

describe('the command', () => {
  const program = fileURLToPath(new URL('../../../sdk/verify-audit-export.ts', import.meta.url));
  let dir: string;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'purser-export-'));
    writeFileSync(join(dir, 'whole.jsonl'), lines(chain));
    writeFileSync(join(dir, 'rest.jsonl'), lines(chain.slice(2)));
    writeFileSync(join(dir, 'changed.jsonl'), lines(chain.with(2, { ...chain[2]!, result: 'denied' })));
    symlinkSync(program, join(dir, 'linked.ts'));
  });
  afterAll(() => rmSync(dir, { recursive: true }));

  async function run(args: readonly string[], { input = '', node = [] as string[], file = program } = {}) {
    const child = spawn(process.execPath, [...node, file, ...args], { cwd: dir });
    child.stdin.end(input);
    const [stdout, stderr, exitCode] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      new Promise((resolve) => child.once('close', resolve)),
    ]);
    return { stdout, stderr, exitCode };
  }

  it('ends with 0 where all is whole, and says to which entry', async () => {
    const headArguments = ['--head-seq', '5', '--head-hash', head.hash];
    const { stdout, exitCode } = await run(['whole.jsonl', ...headArguments]);
    expect([exitCode, stdout]).toEqual([0, `Valid: 5 entries, to number 5 with hash ${head.hash}.\n`]);
    expect((await run(['whole.jsonl'])).stdout).toContain('cannot be seen without --head-seq');
    expect(await run(['-'], { input: lines(chain) })).toMatchObject({ exitCode: 0 });
    expect(await run(['whole.jsonl'], { file: join(dir, 'linked.ts') })).toMatchObject({ exitCode: 0 });
    const checkpoint = ['--checkpoint-seq', '2', '--checkpoint-hash', chain[1]!.hash];
    expect(await run(['rest.jsonl', ...checkpoint, ...headArguments])).toMatchObject({ exitCode: 0 });
  });

  it('ends with 1 where something was done to it, and says where and what', async () => {
    expect(await run(['changed.jsonl'])).toMatchObject({
      exitCode: 1,
      stdout: expect.stringMatching(/^BROKEN at entry 3 \(line 3\): changed: .*\n2 entries before it are whole\.\n$/),
    });
    expect(await run(['whole.jsonl', '--head-seq', '9', '--head-hash', head.hash])).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining('BROKEN at entry 6 (line 6): cut_off'),
    });
    expect(await run(['rest.jsonl'])).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining('is the checkpoint missing'),
    });
  });

  it.each([
    [[]],
    [['nothing-there.jsonl']],
    [['whole.jsonl', 'rest.jsonl']],
    [['whole.jsonl', '--head-seq', '5']],
    [['whole.jsonl', '--head-seq', '5', '--head-hash', 'abc']],
    [['whole.jsonl', '--head-seq', 'five', '--head-hash', head.hash]],
    [['whole.jsonl', '--fast']],
    [
      [
        'rest.jsonl',
        '--checkpoint-seq',
        '2',
        '--checkpoint-hash',
        chain[1]!.hash,
        '--head-seq',
        '1',
        '--head-hash',
        chain[0]!.hash,
      ],
    ],
  ])('ends with 2 where it cannot check: %j', async (args) => {
    const { stdout, stderr, exitCode } = await run(args);
    expect([exitCode, stdout]).toEqual([2, '']);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(stderr.length).toBeGreaterThan(10);
  });

  it('needs no more memory for a large file than for a small one', async () => {
    const many = chainOf(Array.from({ length: 100_000 }, () => ({ metadata: { padding: 'x'.repeat(300) } })));
    writeFileSync(join(dir, 'large.jsonl'), lines(many));
    // 90 MB of text; Node itself takes some 10 MB of this.
    const { exitCode, stderr } = await run(['large.jsonl'], { node: ['--max-old-space-size=24'] });
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  });
});
