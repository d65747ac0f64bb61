import { LOCAL_CHAIN } from '../dev/anvil.ts';
import type { Pool } from '../shared/db/pool.ts';
import { type DecisionAgent, insertAgent } from './decision-rows.ts';

/** Rows of one statement, which has half a minute. */
const batch = 5_000;

/** Payments as a look at the installation finds them: some under way, each with its place and reservation, others ended. */
export async function insertWatched(pool: Pool, { open, ended }: { open: number; ended: number }): Promise<void> {
  const agent = await insertAgent(pool, { policies: 0, past: 0 });
  for (let from = 1; from <= open; from += batch)
    await insertRange(pool, { ...agent, isOpen: true, from, to: Math.min(from + batch - 1, open) });
  for (let from = open + 1; from <= open + ended; from += batch)
    await insertRange(pool, { ...agent, isOpen: false, from, to: Math.min(from + batch - 1, open + ended) });
}

async function insertRange(
  pool: Pool,
  { accountId, agentId, walletId, isOpen, ...range }: DecisionAgent & { isOpen: boolean; from: number; to: number },
): Promise<void> {
  const [status, detail] = isOpen ? ['pending', 'signing'] : ['confirmed', 'confirmed'];
  const closedAt = isOpen ? 'null::timestamptz' : 'now()';
  const numbers = [range.from, range.to];
  await pool.query(
    `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
       from_address, to_address, status, status_detail)
     select 'tx_watched_' || n, $3, $4, $5, $6, 'USDC', 'native', 6, 1000000, '0x', '0x', $7, $8
     from generate_series($1::int, $2::int) n`,
    [...numbers, accountId, agentId, walletId, LOCAL_CHAIN, status, detail],
  );
  await pool.query(
    `insert into slots (wallet_id, chain, nonce, transaction_id, payload, closed_at)
     select $3, $4, n, 'tx_watched_' || n, '{}', ${closedAt} from generate_series($1::int, $2::int) n`,
    [...numbers, walletId, LOCAL_CHAIN],
  );
  await pool.query(
    `insert into reservations (payment_id, account_id, agent_id, token, atoms, state, instant, closed_at)
     select 'tx_watched_' || n, $3, $4, 'USDC', 1, $5, now(), ${closedAt} from generate_series($1::int, $2::int) n`,
    [...numbers, accountId, agentId, isOpen ? 'reserved' : 'settled'],
  );
}

/** Freezes of accounts that are nobody's of the measurement. */
export async function insertFreezes(pool: Pool, { count }: { count: number }): Promise<void> {
  await pool.query(
    `insert into accounts (id, name, plan) select 'acct_frozen_' || n, 'Bench', 'enterprise'
     from generate_series(1, $1::int) n`,
    [count],
  );
  await pool.query(
    `insert into freezes (id, scope, account_id, reason, frozen_by)
     select 'frz_' || n, 'account', 'acct_frozen_' || n, 'bench', 'operator' from generate_series(1, $1::int) n`,
    [count],
  );
}
