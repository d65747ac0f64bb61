import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const folder = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const dir = folder('../../shared/db/migrations');
const newestRelease = readdirSync(folder('../upgrade/dumps')).sort().at(-1)!.replace('.sql', '');

/**
 * What breaks the version that still runs while a migration is applied and until the last of its processes is replaced, or
 * keeps it waiting. Not meant to be complete: the statements of the released version are run as well (upgrade-dumps.test.ts).
 * Whatever is to go goes one release later, when nothing that runs reads it any more.
 */
const unsafe: [string, RegExp][] = [
  ['drops a table or column that the old version reads', /\bdrop (table|column|view|function|type|schema)\b/],
  ['renames what the old version reads', /\brename\b/],
  ['changes a type, for which the whole table is written anew', /\balter column \w+ (set data )?type\b/],
  [
    'wants a value that the old version does not write',
    /\badd column (?:(?!default)[^,;])*\bnot null\b(?:(?!default)[^,;])*[,;]/,
  ],
  ['wants a value that the old version may leave out', /\balter column \w+ set not null\b/],
  ['takes back a right of the old version', /\brevoke\b/],
  [
    'checks all rows under a lock: add it as not valid, validate it in a later migration',
    /\balter table (?:(?!not valid)[^;])*\badd constraint \w+ (check|foreign key)(?:(?!not valid)[^;])*;/,
  ],
  ['ends its own transaction', /^\s*(begin|commit|rollback)\b\s*;/m],
];

/** Without comments and without the bodies of functions. */
const statementsOf = (sql: string) => sql.replace(/--.*$/gm, '').replace(/\s+/g, ' ').toLowerCase();

/** Indexes on tables that are there already keep everybody from writing while they are built. */
function slowIndexes(sql: string): string[] {
  const made = new Set([...sql.matchAll(/\bcreate table (?:if not exists )?(\w+)/g)].map(([, name]) => name));
  return [...sql.matchAll(/\bcreate (?:unique )?index (?!concurrently)(\w+) on (\w+)/g)]
    .filter(([, , table]) => !made.has(table))
    .map(([, name, table]) => `${name} on ${table}`);
}
const faultsOf = (text: string) => {
  const sql = statementsOf(text);
  return [
    ...unsafe.filter(([, pattern]) => pattern.test(sql)).map(([what]) => what),
    ...slowIndexes(sql).map((index) => `keeps all from writing while it builds ${index}`),
  ];
};

describe('migrations since the newest release', () => {
  const since = readdirSync(dir)
    .filter((file) => file.slice(0, 4) > newestRelease)
    .sort();

  it.each(since)('%s may be applied while the released version runs', (file) => {
    expect(faultsOf(readFileSync(`${dir}/${file}`, 'utf8'))).toEqual([]);
  });

  it('have names in order, and none goes back', () => {
    const numbers = readdirSync(dir).sort();
    expect(numbers.map((file) => Number(file.slice(0, 4)))).toEqual(numbers.map((_, index) => index + 1));
    for (const file of numbers) expect(readFileSync(`${dir}/${file}`, 'utf8'), file).not.toMatch(/^-- Down/m);
  });

  it.each([
    ['alter table accounts drop column name;', 'drops'],
    ['alter table accounts rename column name to title;', 'renames'],
    ['alter table accounts alter column name type varchar;', 'changes a type'],
    ['alter table accounts add column colour text not null;', 'wants a value'],
    ['alter table accounts alter column name set not null;', 'wants a value'],
    ['alter table accounts add constraint short check (length(name) < 9);', 'checks all rows'],
    ['create index accounts_by_name on accounts (name);', 'keeps all from writing'],
    ['revoke select on accounts from purser_app;', 'takes back'],
  ])('would not pass as: %s', (sql, fault) => {
    expect(faultsOf(sql)).toEqual([expect.stringContaining(fault)]);
  });

  it.each([
    "alter table accounts add column colour text not null default 'red';",
    'alter table accounts add column colour text;',
    'create table colours (name text not null); create index colours_by_name on colours (name);',
    'alter table accounts add constraint short check (length(name) < 9) not valid;',
  ])('pass as: %s', (sql) => {
    expect(faultsOf(sql)).toEqual([]);
  });
});
