import { z } from 'zod';
import { byOperator } from '../../shared/db/audit.ts';
import { revokeAll } from '../operations/revoke-all.ts';
import { operatorName } from '../operator-name.ts';
import { UsageError } from '../usage-error.ts';
import type { Commands } from './command.ts';
import { accountOption, reasonOption } from './options.ts';

const options = z.object({
  account: accountOption(),
  reason: reasonOption('why you revoke; it is kept in the audit log'),
});

export const revokeCommands: Commands = {
  'revoke-all': {
    options: { account: 'acct_…', reason: 'TEXT' },
    required: ['account', 'reason'],
    prepare(values) {
      const { account: accountId, reason } = options.parse(values);
      return async ({ pool }) => {
        const revoked = await revokeAll(pool, { accountId, acting: byOperator(operatorName()), note: reason });
        if (!revoked) throw new UsageError(`There is no account ${accountId}.`);
        return { account_id: accountId, keys_deleted: revoked.keys, sessions_revoked: revoked.sessions };
      };
    },
  },
};
