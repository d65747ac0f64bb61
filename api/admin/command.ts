import type { AdminConfig } from '../../shared/config.ts';
import type { Pool } from '../../shared/db/pool.ts';
import type { Env } from '../../shared/read-env.ts';

/** What an operator's command works with; the environment is for what looks at the settings of other processes. */
export interface WorkDependencies {
  readonly pool: Pool;
  readonly config: AdminConfig;
  readonly env: Env;
}

/**
 * What is done once the command line has been read. Sets `process.exitCode` to 1 where something is wrong that its result
 * tells. @returns what is printed: with `--json` as it is, else as names and values
 */
export type Work = (deps: WorkDependencies) => Promise<unknown>;

/** What an operator can do with the database at hand. */
export interface Command {
  /** Its options, each with a value, as the usage shows them. */
  readonly options: Readonly<Record<string, string>>;
  /** Those of them that must be given. */
  readonly required?: readonly string[];
  /** Name of the argument that it takes beside them, if it takes one. */
  readonly positional?: string;
  /** @throws ZodError naming the option at fault */
  readonly prepare: (values: unknown) => Work;
  /** The result for people, where names and values are not the best way to read it. */
  readonly show?: (result: unknown) => string;
  /** By member of a request whose refusal may be told here: the option that it comes from. */
  readonly optionOf?: Readonly<Record<string, string>>;
}

/** Commands by their words. */
export type Commands = Readonly<Record<string, Command>>;
