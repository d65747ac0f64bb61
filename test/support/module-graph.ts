import { existsSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** `import … from 'x'` and `export … from 'x'`, with what is named. */
const FROM = /^\s*(?:import|export)\b([\w$\s{},*]*)\bfrom\s*['"]([^'"]+)['"]/gm;
const EFFECT = /^\s*import\s*['"]([^'"]+)['"]/gm;
const DYNAMIC = /\bimport\s*\(\s*['"]([^'"]+)['"]\s*\)/g;
const FILE_URL = /\bnew URL\(\s*['"](\.{1,2}\/[^'"]+\.(?:ts|mjs|cjs|js))['"]\s*,\s*import\.meta\.url/g;

/** What a program consists of when it runs: types are gone. */
export interface ModuleGraph {
  /** Files of this project, from its root. */
  readonly files: ReadonlyMap<string, string>;
  /** Packages and modules of Node, as they are named in imports, with what is taken of each. */
  readonly packages: ReadonlyMap<string, ReadonlySet<string>>;
}

/**
 * Follows every import from a file on, also dynamic ones, files that are named as URLs (worker threads, programs that are
 * started), and imports for their effects.
 * @param entry from the project's root
 * @returns file → code without types, and package → names
 */
export function readModuleGraph(entry: string, base: string = root): ModuleGraph {
  const files = new Map<string, string>();
  const packages = new Map<string, Set<string>>();
  const waiting = [join(base, entry)];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    const name = relative(base, file);
    if (files.has(name)) continue;
    const code = stripTypeScriptTypes(readFileSync(file, 'utf8'));
    files.set(name, code);
    for (const { target, names } of importsOf(code)) {
      if (target.startsWith('.')) {
        const path = join(dirname(file), target);
        if (!existsSync(path)) throw new Error(`${name} imports ${target}, which is not there`);
        waiting.push(path);
      } else {
        const taken = packages.get(target) ?? new Set();
        for (const one of names) taken.add(one);
        packages.set(target, taken);
      }
    }
  }
  return { files, packages };
}

function importsOf(code: string): { target: string; names: string[] }[] {
  return [
    ...[...code.matchAll(FROM)].map(([, clause, target]) => ({ target: target!, names: namesIn(clause!) })),
    ...[EFFECT, DYNAMIC, FILE_URL].flatMap((pattern) =>
      [...code.matchAll(pattern)].map(([, target]) => ({ target: target!, names: ['*'] })),
    ),
  ];
}

/** What an import clause takes: `a, b as c` gives a and b; a default import `default`; a namespace `*`. */
function namesIn(clause: string): string[] {
  const braces = /\{([^}]*)\}/.exec(clause)?.[1] ?? '';
  const named = braces.split(',').map((one) => one.trim().split(/\s+as\s+/)[0]!);
  const outside = clause.replace(/\{[^}]*\}/, '').trim();
  const whole = outside.includes('*') ? ['*'] : /^[\w$]+/.test(outside) ? ['default'] : [];
  return [...named.filter((one) => one !== ''), ...whole];
}
