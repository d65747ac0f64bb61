// node dev/configuration-table.ts: writes the table of variables in README.md anew from shared/variables.ts.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Variable, variables } from '../shared/variables.ts';

const readme = new URL('../README.md', import.meta.url);
const begin = '<!-- configuration: made by node dev/configuration-table.ts -->\n\n';
const end = '\n<!-- end of configuration -->';

/** The table, aligned as the README's others are. */
function configurationTable(): string {
  const rows = Object.entries<Variable>(variables).map(([name, { usedBy, unit = '', byDefault, meaning }]) => [
    `\`${name}\``,
    usedBy,
    byDefault,
    unit,
    meaning,
  ]);
  const table = [['variable', 'used by', 'default', 'unit', 'meaning'], ...rows];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)));
  const [head, ...body] = table.map((row) => row.map((cell, column) => cell.padEnd(widths[column]!)));
  const rule = widths.map((width) => '-'.repeat(width));
  return [head!, rule, ...body].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

/** @returns the README with the table of now @throws Error where its place is not marked */
export function withConfigurationTable(text: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error('README.md has no marked place for the table of variables.');
  return text.slice(0, from + begin.length) + configurationTable() + text.slice(to);
}

if (import.meta.main) writeFileSync(readme, withConfigurationTable(readFileSync(fileURLToPath(readme), 'utf8')));
