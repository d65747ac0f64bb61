import { readFileSync } from 'node:fs';
import { BackupError } from './read.ts';

/** The private keys of a file as age-keygen writes it: one a line, lines with # are remarks. @throws BackupError */
export function readAgeIdentities(file: string): string[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new BackupError(`identity file ${file} cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause });
  }
  const lines = text.split('\n').map((line) => line.trim());
  const identities = lines.filter((line) => line !== '' && !line.startsWith('#'));
  // The file is a secret, so what is wrong in it is not repeated.
  if (identities.length > 0 && identities.every((line) => /^AGE-SECRET-KEY-(PQ-)?1[A-Z0-9]+$/.test(line)))
    return identities;
  throw new BackupError(
    `identity file ${file} is none: one AGE-SECRET-KEY-… a line, as npm run signers -- backup-key writes it`,
  );
}
