import type { Command } from './command.ts';

export const statusCommands: Readonly<Record<string, Command>> = {
  status: {
    summary: 'What each signer holds: keys with their epochs, bans. Ends with 1 unless all three answer.',
    usage: '',
    options: {},
    async run({ connect }) {
      const signers = await (await connect()).status();
      if (signers.some((signer) => 'error' in signer)) process.exitCode = 1;
      return { signers };
    },
  },
};
