import type { Pool } from '../shared/db/pool.ts';
import { newId } from '../shared/ids.ts';
import { insertAgent } from './decision-rows.ts';

/** Payments as a look at the installation finds them: some under way, each with its place and reservation, others ended. */
export async function insertWatched(pool: Pool, { open, ended }: { open: number; ended: number }): Promise<void> {
  const { accountId, agentId, walletId } = await insertAgent(pool, { policies: 0, past: 0 });
  await pool.query(
    `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
       from_address, to_address, status, status_detail)
     select 'tx_watched_' || n, $1, $2, $3, 'eip155:31337', 'USDC', 'native', 6, 1000000, '0x', '0x',
       case when n <= $4::int then 'pending' else 'confirmed' end,
       case when n <= $4::int then 'signing' else 'confirmed' end
     from generate_series(1, $4::int + $5::int) n`,
    [accountId, agentId, walletId, open, ended],
  );
  const ours = `from transactions where agent_id = '${agentId}'`;
  const closedAt = `case when status = 'pending' then null else now() end`;
  await pool.query(
    `insert into slots (wallet_id, chain, nonce, transaction_id, payload, closed_at)
     select wallet_id, chain, row_number() over (), id, '{}', ${closedAt} ${ours}`,
  );
  await pool.query(
    `insert into reservations (payment_id, account_id, agent_id, token, atoms, state, instant, closed_at)
     select id, account_id, agent_id, token, 1, case when status = 'pending' then 'reserved' else 'settled' end,
       now(), ${closedAt} ${ours}`,
  );
}

/** Freezes of agents that are nobody's of the measurement. */
export async function insertFreezes(pool: Pool, { count }: { count: number }): Promise<void> {
  await pool.query(
    `insert into freezes (id, scope, account_id, agent_id, reason, frozen_by)
     select 'frz_' || n, 'agent', $1, 'agent_other_' || n, 'bench', 'operator' from generate_series(1, $2::int) n`,
    [newId('acct'), count],
  );
}
