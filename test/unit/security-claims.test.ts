import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));
const text = readFileSync(`${root}SECURITY.md`, 'utf8');

/** The table of claims: its rows, without head and rule. */
const claims = text
  .split('\n## Claims')[1]!
  .split('\n## ')[0]!
  .split('\n')
  .filter((line) => line.startsWith('|'))
  .slice(2);

describe('the claims of SECURITY.md', () => {
  it.each(claims)('name tests that there are: %s', (claim) => {
    const named = [...claim.matchAll(/`(test\/[^`]+)`/g)].map(([, path]) => path!);
    expect(named.length).toBeGreaterThan(0);
    for (const path of named) expect(existsSync(root + path), path).toBe(true);
  });

  it('are more than a few', () => expect(claims.length).toBeGreaterThan(15));
});
