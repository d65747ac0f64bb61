import { z } from 'zod';
import { getApiKey, listApiKeys } from '../../shared/db/api-keys.ts';
import { byOperator } from '../../shared/db/audit.ts';
import { databaseClock } from '../../shared/db/clock.ts';
import { unkeyed } from '../idempotency.ts';
import { makeApiKey, maxApiKeys, removeApiKey } from '../operations/change-api-keys.ts';
import { operatorName } from '../operator-name.ts';
import { showListedApiKey } from '../render/api-key.ts';
import { readScopes } from '../schemas/api-keys.ts';
import { UsageError } from '../usage-error.ts';
import type { Commands } from './command.ts';
import { accountOption, idOption, requireAccount, textOption } from './options.ts';

/** Ten years. */
const maxExpiryDays = 3_650;
const dayMs = 24 * 60 * 60 * 1000;

const scopes = z.string().transform((list, context) => {
  const read = readScopes(list.split(',').map((each) => each.trim()));
  if ('scopes' in read) return read.scopes;
  context.addIssue({ code: 'custom', message: `--scopes ${read.fault}` });
  return z.NEVER;
});

const expiryDays = z
  .string()
  .refine((text) => /^[1-9]\d{0,3}$/.test(text) && Number(text) <= maxExpiryDays, {
    error: `--expires-days must be a whole number from 1 to ${maxExpiryDays}.`,
  })
  .transform(Number);

const createOptions = z.object({
  account: accountOption(),
  name: textOption('--name', { use: 'what the key is for', maxLength: 128 }),
  agent: idOption('--agent', { prefix: 'agent', what: 'agent' }).optional(),
  scopes: scopes.optional(),
  'expires-days': expiryDays.optional(),
});
const listOptions = z.object({ account: accountOption() });
const deleteOptions = z.object({ id: idOption('--id', { prefix: 'key', what: 'API key' }) });

export const keyCommands: Commands = {
  'key create': {
    options: { account: 'acct_…', name: 'NAME', agent: 'agent_…', scopes: 'SCOPE,…', 'expires-days': 'N' },
    required: ['account', 'name'],
    optionOf: { agent_id: '--agent', scopes: '--scopes' },
    prepare(values) {
      const { account, name, agent, scopes, 'expires-days': days } = createOptions.parse(values);
      return async ({ pool, config: { environment } }) => {
        const { id: accountId } = await requireAccount(pool, { id: account });
        const now = await databaseClock(pool);
        const expiresAt = days === undefined ? undefined : new Date(now.getTime() + days * dayMs);
        const body = { name, scopes, agent_id: agent, expires_at: expiresAt };
        return makeApiKey(
          { pool, environment },
          { accountId, acting: byOperator(operatorName()), body, once: unkeyed },
        );
      };
    },
  },
  'key list': {
    options: { account: 'acct_…' },
    required: ['account'],
    prepare(values) {
      const { account } = listOptions.parse(values);
      return async ({ pool }) => {
        const { id: accountId } = await requireAccount(pool, { id: account });
        const rows = await listApiKeys(pool, { accountId, limit: maxApiKeys, offset: 0 });
        return { data: rows.map(showListedApiKey) };
      };
    },
  },
  'key delete': {
    options: { id: 'key_…' },
    required: ['id'],
    prepare(values) {
      const { id } = deleteOptions.parse(values);
      return async ({ pool }) => {
        const isThere = (await getApiKey(pool, { id })) !== undefined;
        if (!isThere || !(await removeApiKey(pool, { id, acting: byOperator(operatorName()) })))
          throw new UsageError(`There is no API key ${id}.`);
        return { id, deleted: true };
      };
    },
  },
};
