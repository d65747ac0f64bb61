import { chainSuffix, variables } from './variables.ts';

/** Further from every known name than this, a name is not taken for a misspelling of one. */
const maxDistance = 4;
/** What Kubernetes puts into each container for services of its namespace, also when they are called purser-…. */
const serviceLink = /_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?$/;
const linkValue = /^(tcp|udp):\/\//;

const names = Object.keys(variables);
const prefixes = names.flatMap((name) => (name.endsWith(chainSuffix) ? [name.slice(0, -chainSuffix.length)] : []));

/** Whether a process or command of ours reads a variable of that name. */
export function isKnownVariable(name: string): boolean {
  return names.includes(name) || prefixes.some((prefix) => name.startsWith(prefix) && name.length > prefix.length);
}

/**
 * A sentence for each variable PURSER_… that nothing reads, with the name that was probably meant; never its value. They
 * are told and nothing more: a variable of a newer version must not keep an older one from starting.
 */
export function unknownVariables(env: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(env)
    .filter(([name, value = '']) => name.startsWith('PURSER_') && !isKnownVariable(name) && !isServiceLink(name, value))
    .map(([name]) => {
      const near = nearest(name);
      return `${name} is no variable that Purser reads${near === undefined ? '.' : `: is ${near} meant?`}`;
    });
}

function isServiceLink(name: string, value: string): boolean {
  return serviceLink.test(name) && (linkValue.test(value) || !/_PORT$/.test(name) || /_SERVICE_PORT$/.test(name));
}

function nearest(name: string): string | undefined {
  const [best] = names
    .map((known) => ({ known, distance: distanceBetween(name, known) }))
    .sort((a, b) => a.distance - b.distance);
  return best !== undefined && best.distance <= maxDistance ? best.known : undefined;
}

/** Levenshtein's: letters to add, to take away and to change. */
function distanceBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...a].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= b.length; column += 1)
      next.push(
        Math.min(next[column - 1]! + 1, row[column]! + 1, row[column - 1]! + (letter === b[column - 1] ? 0 : 1)),
      );
    row = next;
  }
  return row[b.length]!;
}
