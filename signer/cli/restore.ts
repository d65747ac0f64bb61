import { readAgeIdentities } from '../backup/identities.ts';
import { restoreBackup } from '../backup/restore.ts';
import { parsePublicIdentity } from '../identity.ts';
import { createKeyEncryption } from '../kek.ts';
import { fileKekSource } from '../kek-source.ts';
import { PARTIES, type Party } from '../parties.ts';
import { type Command, type CommandContext, UsageError } from './command.ts';
import { readEndpoints } from './connect.ts';

const USAGE = '--party N --file FILE --identity FILE --data-dir DIR --kek-file FILE [--public-key KEY]';

function required(values: CommandContext['values'], name: string): string {
  const value = values[name];
  if (typeof value === 'string') return value;
  throw new UsageError(`--${name} is missing\nusage: ${USAGE}`);
}

function readParty(text: string): Party {
  const party = PARTIES.find((each) => `${each}` === text);
  if (party) return party;
  throw new UsageError(`--party must be one of ${PARTIES.join(', ')}`);
}

export const restoreCommands: Readonly<Record<string, Command>> = {
  restore: {
    summary:
      'Makes the store of a signer that is stopped and has lost it, from its backup. Start the signer, then run repair --party N.',
    usage: USAGE,
    options: {
      party: { type: 'string' },
      file: { type: 'string' },
      identity: { type: 'string' },
      'data-dir': { type: 'string' },
      'kek-file': { type: 'string' },
      'public-key': { type: 'string' },
    },
    async run({ values, env, tell }) {
      const party = readParty(required(values, 'party'));
      const publicKey = values['public-key'] ?? readEndpoints(env).find((each) => each.party === party)?.publicKey;
      const signer = await parsePublicIdentity(String(publicKey));
      const source = fileKekSource({ file: required(values, 'kek-file'), isProduction: false });
      const restored = await restoreBackup({
        file: required(values, 'file'),
        identities: readAgeIdentities(required(values, 'identity')),
        verificationKey: signer.verificationKey,
        party,
        dataDir: required(values, 'data-dir'),
        keyEncryption: createKeyEncryption(await source.read()),
      });
      if (restored.bytesIgnored > 0) {
        tell(`The last ${restored.bytesIgnored} bytes of the backup are what a write left that was cut off.`);
      }
      tell(`Signer ${party} signs nothing yet: start it, then run npm run signers -- repair --party ${party}`);
      return restored;
    },
  },
};
