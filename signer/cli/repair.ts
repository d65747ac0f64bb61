import type { RepairedKey } from '../coordinate-repair.ts';
import { PARTIES, type Party } from '../parties.ts';
import { type Command, UsageError } from './command.ts';
import { eachKey } from './each-key.ts';

export const repairCommands: Readonly<Record<string, Command>> = {
  repair: {
    summary: 'Gives a signer whose shares are lost or damaged new ones, by the two others, and what they recorded.',
    usage: '--party N [--key KEY]',
    options: { party: { type: 'string' }, key: { type: 'string' } },
    async run({ values, connect, tell }) {
      const party = readParty(values.party as string | undefined);
      const key = values.key as string | undefined;
      const client = await connect();
      return eachKey({ client, key, tell }, async (keyId): Promise<RepairedKey> => {
        const repaired = await client.repairKey({ keyId, party });
        if (repaired.hasRecords) return repaired;
        await client.mergeRecords({ keyId, party });
        return {
          ...repaired,
          outcome: repaired.outcome === 'current' ? 'completed' : repaired.outcome,
          hasRecords: true,
        };
      });
    },
  },
};

function readParty(text: string | undefined): Party {
  const party = PARTIES.find((candidate) => `${candidate}` === text);
  if (party) return party;
  throw new UsageError(`--party must be the number of the signer that lost its shares: ${PARTIES.join(', ')}`);
}
