import type { Registry } from '../../shared/chain/registry.ts';
import { type AccountRow, findAccount } from '../../shared/db/accounts.ts';
import type { Pool } from '../../shared/db/pool.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { setAccount } from '../operations/set-account.ts';
import { showAccount } from '../render/account.ts';
import { requireGasTopUps } from '../require-gas-top-ups.ts';
import { account, updateAccountBody } from '../schemas/account.ts';
import type { TemporalGateway } from '../temporal-gateway.ts';

const tag = 'Account';

/** Endpoints of the caller's account itself. */
export function createAccountEndpoints({
  pool,
  registry,
  temporal,
}: {
  pool: Pool;
  registry: Registry;
  temporal: Pick<TemporalGateway, 'tellFreeze'>;
}): Endpoint[] {
  return [
    defineEndpoint({
      method: 'get',
      path: '/account',
      operationId: 'getAccount',
      tag,
      summary: 'Get the account',
      description: 'Its plan, what that allows and what of it is used, and its settings.',
      answer: account,
      errors: ['invalid_request'],
      handle: async ({ caller: { accountId } }) =>
        showAccount(pool, existing(await findAccount(pool, { id: accountId }))),
    }),
    defineEndpoint({
      method: 'put',
      path: '/account',
      operationId: 'updateAccount',
      tag,
      summary: "Change the account's settings",
      description:
        'What is not given stays. Everything counts from the next request and the next payment on. The plan is set by whoever runs this installation. `frozen: true` stops all payments of the account: within a second nothing new is signed for it, neither payments nor what would replace them; what was signed is followed to its end, questions can be answered, and payments are still taken and wait. A freeze by whoever runs this installation is lifted by them alone: 403.',
      body: updateAccountBody,
      answer: account,
      errors: ['invalid_request', 'invalid_chain', 'invalid_amount'],
      handle: async ({
        caller: { accountId },
        acting,
        body: { plan: _readOnly, frozen, freeze_reason, gas_top_ups: given, ...settings },
      }) => {
        const gas_top_ups = given && (await requireGasTopUps(pool, registry, { accountId, given }));
        const change = { ...settings, gas_top_ups };
        const wish = { frozen, freeze_reason };
        const changed = await setAccount(pool, { id: accountId, change, wish, acting, from: acting.ipAddress ?? '' });
        if (frozen !== undefined) await temporal.tellFreeze();
        return showAccount(pool, existing(changed));
      },
    }),
  ];
}

/** Accounts are never deleted. */
function existing(row: AccountRow | undefined): AccountRow {
  if (!row) throw new Error('A credential is of an account that does not exist.');
  return row;
}
