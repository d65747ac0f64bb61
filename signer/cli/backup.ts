import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { type Command, UsageError } from './command.ts';

/**
 * Makes the private half that backups are restored with, as age-keygen writes it. It belongs to nobody who runs a signer.
 * @returns the public half, for the settings of the signers
 * @throws UsageError where the file exists
 */
async function makeBackupKey(file: string): Promise<{ file: string; recipient: string }> {
  const identity = await generateIdentity();
  const recipient = await identityToRecipient(identity);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  try {
    writeFileSync(file, `# public key: ${recipient}\n${identity}\n`, { mode: 0o600, flag: 'wx', flush: true });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new UsageError(
      code === 'EEXIST' ? `${file} exists already and is left as it is` : `${file} cannot be written (${code})`,
    );
  }
  return { file, recipient };
}

export const backupCommands: Readonly<Record<string, Command>> = {
  backup: {
    summary: 'Has each signer write its backup anew, now. Ends with 1 unless all three did.',
    usage: '',
    options: {},
    async run({ connect }) {
      const signers = await (await connect()).backup();
      if (signers.some(({ error }) => error)) process.exitCode = 1;
      return { signers };
    },
  },
  'backup-key': {
    summary:
      'Makes the key that opens backups (age). Keep the file offline, apart from all signers; the recipient that is printed goes into PURSER_SIGNER_BACKUP_RECIPIENT.',
    usage: '--file FILE',
    options: { file: { type: 'string' } },
    async run({ values }) {
      if (typeof values.file !== 'string') throw new UsageError('--file is missing: where the private half is written');
      return makeBackupKey(values.file);
    },
  },
};
