/** Widest table; what is wider is shown row by row. */
const maxTableWidth = 160;
const none = '–';

/** A result for people: names and values line by line, lists of plain things as tables. It is data: nothing in it moves the cursor. */
export function showResult(result: unknown): string {
  return linesOf(result).join('\n');
}

function linesOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.every(isPlain) ? value.map(plainText) : listLines(value);
  if (!isObject(value)) return [plainText(value)];
  return Object.entries(value).flatMap(([name, member]) => memberLines(words(name), member));
}

function memberLines(name: string, value: unknown): string[] {
  if (isPlain(value)) return [`${name}: ${plainText(value)}`];
  const inner = linesOf(value);
  return inner.length === 0 ? [`${name}: none`] : [`${name}:`, ...inner.map((line) => `  ${line}`)];
}

function listLines(list: readonly unknown[]): string[] {
  const table = tableLines(list);
  if (table) return table;
  return list.flatMap((each) => linesOf(each).map((line, index) => `${index === 0 ? '- ' : '  '}${line}`));
}

/** Of things that all have the same plain members; undefined where there is no such table, or it is too wide. */
function tableLines(list: readonly unknown[]): string[] | undefined {
  if (list.length < 2 || !list.every(isObject)) return undefined;
  const names = Object.keys(list[0]!);
  const isSame = list.every((each) => Object.keys(each).join() === names.join() && Object.values(each).every(isPlain));
  if (!isSame) return undefined;
  const rows = [names.map(words), ...list.map((each) => Object.values(each).map(plainText))];
  const widths = names.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  if (widths.reduce((sum, width) => sum + width + 2, 0) > maxTableWidth) return undefined;
  return rows.map((row) =>
    row
      .map((text, column) => text.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);

/** Fits a line: no object, and no list of any. */
function isPlain(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0 && value.every((each) => !isObject(each) && !Array.isArray(each));
  return !isObject(value);
}

function plainText(value: unknown): string {
  if (Array.isArray(value)) return value.map(plainText).join(', ');
  if (value === null || value === undefined) return none;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (value instanceof Date) return value.toISOString();
  return withoutControls(String(value));
}

/** Names and reasons are written by others: what moves a terminal's cursor, or turns its text around, is shown as what it is. */
function withoutControls(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (character) => `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`,
  );
}

/** `keyId` and `key_id` are `key id`. */
function words(name: string): string {
  return withoutControls(name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_').replaceAll('_', ' ')).toLowerCase();
}
