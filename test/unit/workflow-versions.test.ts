import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const code = globSync('workflows/*.ts', { cwd: root }).map(read).join('\n');
/** Workflows that last for a moment: an upgrade finds none of them under way, or their next run does what this one missed. */
const brief = [
  ...['balances', 'quote', 'readiness', 'checkLimits', 'maintenance', 'reconcile', 'watchGas', 'spareKeys'],
  // Begun by an operator who waits for it, and may be begun again at any time.
  'restore',
  // Tells the whole state: the next one heals what this one left.
  'freeze',
];

describe('versions of workflows', () => {
  it('have their patches told in docs/operations.md, every one and no other', () => {
    const used = [...code.matchAll(/\b(?:patched|deprecatePatch)\('([^']+)'\)/g)].map(([, id]) => id);
    const upgrade = read('docs/operations.md').split('\n## Upgrade\n')[1]!.split('\n## ')[0]!;
    const told = [...upgrade.matchAll(/^\| `([a-z-]+)` +\|/gm)].map(([, id]) => id);
    expect(used.length).toBeGreaterThan(0);
    expect(told.sort()).toEqual([...new Set(used)].sort());
  });

  it('are held by a recorded history for each workflow that lasts', () => {
    const workflows = [...read('workflows/index.ts').matchAll(/^export \{ ([^}]+) \}/gm)].flatMap(([, names]) =>
      names!.split(', '),
    );
    const recorded = readdirSync(join(root, 'test/replay'))
      .filter((file) => /\.json$/.test(file))
      .flatMap((file) => {
        const [first] = (JSON.parse(read(`test/replay/${file}`)) as { events: Started[] }).events;
        return first!.workflowExecutionStartedEventAttributes.workflowType.name;
      });
    expect([...new Set([...recorded, ...brief])].sort()).toEqual(workflows.sort());
  });
});

interface Started {
  readonly workflowExecutionStartedEventAttributes: { readonly workflowType: { readonly name: string } };
}
