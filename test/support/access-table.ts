import { type Access, access } from '../../api/access.ts';
import type { Operation } from './operations.ts';

const [begin, end] = ['<!-- access -->', '<!-- /access -->'];
const heads = ['endpoints', 'scope of an API key', 'key of one agent', 'least role of a person'];

/** The table of who may what, as the README has it: endpoints of a kind with the same needs stand in one row. */
export function renderAccessTable(operations: readonly Operation[]): string {
  const rowOf = ({ id }: Operation) => needsOf((access as Readonly<Record<string, Access>>)[id]!);
  const groups = Map.groupBy(operations, (operation) => [operation.tag, ...rowOf(operation)].join('\n'));
  const rows = [...groups.values()].map((group) => {
    const endpoints = group.map(({ method, path }) => `\`${method} ${path.replace('/api/v1', '')}\``).join(', ');
    return [endpoints, ...rowOf(group[0]!)];
  });
  const widths = heads.map((head, column) => Math.max(head.length, ...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, at) => cell.padEnd(widths[at]!)).join(' | ')} |`;
  return [line(heads), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}

/** What the README has between its marks. */
export function accessTableIn(readme: string): string {
  const [from, to] = [readme.indexOf(begin), readme.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`README.md has no ${begin} … ${end}.`);
  return readme.slice(from + begin.length, to).trim();
}

function needsOf(row: Access): [string, string, string] {
  if (row.by === 'anybody') return ['no credential', 'no credential', 'no credential'];
  const ofAgent = row.agentKeys ? 'its own' : 'never';
  return [row.scope === null ? 'never' : `\`${row.scope}\``, ofAgent, row.role];
}
