import type { AdminConfig } from '../../shared/config.ts';
import type { Pool } from '../../shared/db/pool.ts';

/** What is done once the command line has been read. @returns what is printed as JSON */
export type Work = (deps: { pool: Pool; config: AdminConfig }) => Promise<unknown>;

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
  /** By member of a request whose refusal may be told here: the option that it comes from. */
  readonly optionOf?: Readonly<Record<string, string>>;
}

/** Commands by their words. */
export type Commands = Readonly<Record<string, Command>>;
