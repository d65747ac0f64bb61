import type { RefreshedKey } from '../coordinate-refresh.ts';
import { type Command, type CommandContext, UsageError } from './command.ts';
import { eachKey } from './each-key.ts';

export const refreshCommands: Readonly<Record<string, Command>> = {
  refresh: {
    summary: 'Gives the three signers new shares of one key, or of all. Addresses stay, and signing goes on meanwhile.',
    usage: '[--key KEY] [--complete] [--since TIME]',
    options: { key: { type: 'string' }, complete: { type: 'boolean' }, since: { type: 'string' } },
    run: refresh,
  },
};

/** Keys that have got new shares since a time are left alone: so a run that was interrupted is continued. */
async function refresh({ values, connect, tell }: CommandContext): Promise<object> {
  const { key, complete = false } = values as { key?: string; complete?: boolean };
  const since = readTime(values.since as string | undefined);
  const client = await connect();
  if (!key)
    tell(`to continue after an interruption: refresh --since ${since.toISOString()}${complete ? ' --complete' : ''}`);
  const request = { complete, ...(key && !values.since ? {} : { olderThanMs: since.getTime() }) };
  return eachKey<RefreshedKey>({ client, key, tell }, (keyId) => client.refreshKey({ keyId, ...request }));
}

function readTime(text: string | undefined): Date {
  const time = text === undefined ? new Date() : new Date(text);
  if (!Number.isNaN(time.getTime())) return time;
  throw new UsageError(`--since ${text} is not a time such as 2026-11-01T00:00:00Z`);
}
