/** Deepest nesting that is kept; requests may have half of it. */
const maxDepth = 64;
const tooDeep = '[nested too deeply]';

/**
 * A copy of a JSON value that has a canonical form (RFC 8785): unpaired surrogates, which are no characters, become
 * U+FFFD, and what is nested too deeply for a recursive reader becomes a note that says so.
 */
export function soundJson(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value !== 'object' || value === null) return value;
  if (depth === maxDepth) return tooDeep;
  if (Array.isArray(value)) return value.map((each) => soundJson(each, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name.toWellFormed(), soundJson(each, depth + 1)]),
  );
}
