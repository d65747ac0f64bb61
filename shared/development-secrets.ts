import { readFileSync } from 'node:fs';
import { isDevelopmentSecret } from './domain/development-mark.ts';
import { ConfigError } from './read-env.ts';

/** A secret as a process is told of it: the variable's name, and the file. */
export interface SecretFile {
  readonly name: string;
  readonly path: string | undefined;
}

/**
 * A sentence for each secret that was made for trying out.
 * @throws ConfigError where a file cannot be read
 */
export function developmentSecrets(files: readonly SecretFile[]): string[] {
  return files
    .filter(({ name, path }) => path !== undefined && isDevelopmentSecret(read(name, path)))
    .map(
      ({ name, path }) =>
        `${name}: ${path} was made by npm start for trying out, and is refused in production. deploy/init-keys.sh makes the keys of an installation.`,
    );
}

function read(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError([`${name}: ${path} cannot be read: ${(error as NodeJS.ErrnoException).code}.`]);
  }
}
