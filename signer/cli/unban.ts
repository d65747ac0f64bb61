import { type Command, UsageError } from './command.ts';

export const unbanCommands: Readonly<Record<string, Command>> = {
  unban: {
    summary:
      'Lets signers that were banned for a key work again, after a complete refresh. Look at why they were, first.',
    usage: '--key KEY',
    options: { key: { type: 'string' } },
    async run({ values, connect }) {
      if (!values.key) throw new UsageError('--key is missing; the bans are shown by: npm run signers -- status');
      return (await connect()).liftBans({ keyId: values.key as string });
    },
  },
};
