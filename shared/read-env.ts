import { z } from 'zod';

// How variables of the environment are read, and what is said of those that cannot be.

/** The environment, a string a name, as processes get it. */
export type Env = Readonly<Record<string, string | undefined>>;

/** @throws ConfigError */
export function read<S extends z.ZodType>(schema: S, env: Env): z.output<S> {
  // An empty variable is how compose files and shells say "not set".
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const lines = result.error.issues.map((issue) => {
    const name = String(issue.path[0] ?? 'configuration');
    return given[name] === undefined ? `${name} is missing.` : `${name}: ${issue.message}`;
  });
  throw new ConfigError(lines);
}

/** Everything that is wrong with the environment, a sentence a variable. Values are never repeated: some are secret. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  constructor(lines: readonly string[]) {
    super(`The configuration cannot be used:\n  ${lines.join('\n  ')}`);
  }
}

/** The variable that says something of one chain: `PURSER_RPC` and `eip155:8453` make `PURSER_RPC_EIP155_8453`. */
export function variableOf(prefix: string, chain: string): string {
  return `${prefix}_${chain.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`;
}

/** `PURSER_CONFIRMATIONS_EIP155_8453` → 8453's depth, and so on: one variable a chain. @throws ConfigError */
export function perChain<T>(env: Env, prefix: string, ids: readonly string[], parse: z.ZodType<T>): Record<string, T> {
  const found: Record<string, T> = {};
  for (const id of ids) {
    const value = readOptional(env, variableOf(prefix, id), parse);
    if (value !== undefined) found[id] = value;
  }
  return found;
}

/** @throws ConfigError */
export function readOptional<T>(env: Env, name: string, parse: z.ZodType<T>): T | undefined {
  return env[name] ? (read(z.object({ [name]: parse }), env)[name] as T) : undefined;
}
