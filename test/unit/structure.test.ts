import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folders = ['api', 'workflows', 'activities', 'worker', 'signer', 'shared', 'sdk', 'dev'];

/** Runs dependency-cruiser with the project's rules on the given folder. */
function cruise(cwd: string, o: { folders: string[] }): { exitCode: number | null; output: string } {
  const args = ['--config', join(root, '.dependency-cruiser.cjs'), ...o.folders];
  const { status, stdout, stderr } = spawnSync(join(root, 'node_modules/.bin/depcruise'), args, {
    cwd,
    encoding: 'utf8',
  });
  return { exitCode: status, output: stdout + stderr };
}

/** A small project that consists of the given files, to see the rules refuse. */
function cruiseFiles(files: Record<string, string>): { exitCode: number | null; output: string } {
  const dir = mkdtempSync(join(tmpdir(), 'purser-structure-'));
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(dir, path)), { recursive: true });
      writeFileSync(join(dir, path), text);
    }
    writeFileSync(join(dir, 'package.json'), readFileSync(join(root, 'package.json')));
    symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'));
    return cruise(dir, { folders: [...new Set(Object.keys(files).map((path) => path.split('/')[0]!))] });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

describe('the arrows between folders', () => {
  it('hold in this project', () => {
    const { exitCode, output } = cruise(root, { folders });
    expect(output).toContain('no dependency violations found');
    expect(exitCode).toBe(0);
  });

  it.each([
    ['arrows-of-shared', 'shared/a.ts', "import { x } from '../api/b.ts';\nexport const y = x;", 'api/b.ts'],
    [
      'arrows-of-api',
      'api/a.ts',
      "import type { x } from '../activities/b.ts';\nexport type Y = typeof x;",
      'activities/b.ts',
    ],
    ['arrows-of-signer', 'signer/a.ts', "export * from '../shared/db/b.ts';", 'shared/db/b.ts'],
    [
      'arrows-of-workflows',
      'workflows/a.ts',
      "import { x } from '../shared/db/b.ts';\nexport const y = x;",
      'shared/db/b.ts',
    ],
    ['arrows-of-worker', 'worker/a.ts', "export const y = await import('../dev/b.ts');", 'dev/b.ts'],
    [
      'arrows-of-activities',
      'activities/a.ts',
      "import { x } from '../signer/store.ts';\nexport const y = x;",
      'signer/store.ts',
    ],
    ['arrows-of-sdk', 'sdk/a.ts', "import { x } from '../shared/db/b.ts';\nexport const y = x;", 'shared/db/b.ts'],
    ['domain-is-pure', 'shared/domain/a.ts', "import { x } from '../db/b.ts';\nexport const y = x;", 'shared/db/b.ts'],
    [
      'families-behind-their-seam',
      'api/a.ts',
      "import { x } from '../shared/chain/evm/b.ts';\nexport const y = x;",
      'shared/chain/evm/b.ts',
    ],
    [
      'families-behind-their-seam',
      'shared/a.ts',
      "import { x } from './chain/tron/b.ts';\nexport const y = x;",
      'shared/chain/tron/b.ts',
    ],
    [
      'families-apart',
      'shared/chain/tron/a.ts',
      "import { x } from '../evm/b.ts';\nexport const y = x;",
      'shared/chain/evm/b.ts',
    ],
  ])('%s refuses %s', (rule, path, text, target) => {
    const { exitCode, output } = cruiseFiles({ [path]: text, [target]: 'export const x = 1;' });
    expect(output).toContain(`${rule}: ${path} → ${target}`);
    expect(exitCode).toBeGreaterThan(0);
  });

  it('refuses packages in workflow code that are not for it', () => {
    const { output } = cruiseFiles({
      'workflows/a.ts': "import { z } from 'zod';\nimport fs from 'node:fs';\nexport const y = [z, fs];",
    });
    expect(output).toContain('workflows-are-deterministic: workflows/a.ts → fs');
    expect(output).toMatch(/workflows-are-deterministic: workflows\/a.ts → .*node_modules\/zod\//);
  });

  it('refuses a cycle', () => {
    const { output } = cruiseFiles({
      'shared/a.ts': "import { b } from './b.ts';\nexport const a = () => b;",
      'shared/b.ts': "import { a } from './a.ts';\nexport const b = () => a;",
    });
    expect(output).toContain('no-cycles');
  });
});

describe('workflow code', () => {
  it('takes nothing but types from the activities', () => {
    for (const file of readdirSync(join(root, 'workflows'), { recursive: true, encoding: 'utf8' })) {
      if (!file.endsWith('.ts')) continue;
      const code = stripTypeScriptTypes(readFileSync(join(root, 'workflows', file), 'utf8'));
      expect(code, `workflows/${file}`).not.toMatch(/(from|import)\s*\(?['"][./]+\/activities\//);
    }
  });
});
