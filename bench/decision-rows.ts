import { insertPolicy } from '../shared/db/policies.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { PolicyType } from '../shared/domain/policy/engine.ts';
import { levelUnitsMs } from '../shared/domain/policy/window-ranges.ts';
import { newId } from '../shared/ids.ts';

const chain = 'eip155:31337';
const fromAddress = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
const toAddress = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC';
const strangers = ['0x90F79bf6EB2c4f870365E785982E1f101E93b906', '0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65'];
/** Windows of velocity policies, of several lengths, so that many policies ask for many windows. */
const velocityWindowsSeconds = [3_600, 60, 604_800, 2_592_000];

/** An agent whose payments are decided. */
export interface DecisionAgent {
  readonly accountId: string;
  readonly agentId: string;
  readonly walletId: string;
}

/** @param past settled payments, spread evenly over the last 30 days */
export async function insertAgent(
  pool: Pool,
  { policies, past }: { policies: number; past: number },
): Promise<DecisionAgent> {
  const [accountId, agentId, walletId, keyId] = [newId('acct'), newId('agent'), newId('wal'), newId('ckey')];
  await pool.query(`insert into accounts (id, name, plan) values ($1, 'Bench', 'enterprise')`, [accountId]);
  await pool.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
    keyId,
    accountId,
  ]);
  await pool.query(`insert into agents (id, account_id, agent_name, chain) values ($1, $2, 'Agent', $3)`, [
    agentId,
    accountId,
    chain,
  ]);
  await pool.query(
    `insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, 'm/44/60/0/0/0', $4)`,
    [walletId, agentId, keyId, fromAddress],
  );
  for (let index = 0; index < policies; index += 1)
    await insertPolicy(pool, { id: newId('pol'), accountId, agentId, ...policyAt(index) });
  const agent = { accountId, agentId, walletId };
  await insertPast(pool, agent, { count: past });
  return agent;
}

/** Five types in turn; none denies any payment of the measurement. */
function policyAt(index: number): { type: PolicyType; rules: Record<string, unknown> } {
  const round = Math.floor(index / 5);
  const all: readonly { type: PolicyType; rules: Record<string, unknown> }[] = [
    {
      type: 'spending_limit',
      rules: { max_transaction_amount: '1000', daily_limit: '100000000', monthly_limit: '1000000000' },
    },
    {
      type: 'velocity_control',
      rules: {
        max_count: 1_000_000,
        window_seconds: velocityWindowsSeconds[round % velocityWindowsSeconds.length],
      },
    },
    { type: 'address_control', rules: { blocked_addresses: strangers } },
    { type: 'schedule', rules: { timezone: 'Europe/Berlin', allowed_days: [0, 1, 2, 3, 4, 5, 6] } },
    { type: 'token_control', rules: { allowed_tokens: ['USDC', 'ETH'] } },
  ];
  return all[index % all.length]!;
}

/** Payments of 1 USDC that were confirmed, with all that their decisions and ends have left behind. */
async function insertPast(pool: Pool, agent: DecisionAgent, { count }: { count: number }): Promise<void> {
  const { accountId, agentId, walletId } = agent;
  await pool.query(
    `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
       from_address, to_address, status, status_detail, created_at, updated_at)
     select 'tx_' || $2::text || '_' || i, $1, $2, $3, $4, 'USDC', 'native', 6, 1000000, $5, $6, 'confirmed', 'confirmed',
            instant, instant
     from generate_series(1, $7::int) i cross join lateral
       (select now() - interval '30 days' * ((i - 0.5) / $7::int) as instant) at`,
    [accountId, agentId, walletId, chain, fromAddress, toAddress, count],
  );
  await pool.query(
    `insert into reservations (payment_id, account_id, agent_id, token, atoms, state, instant, closed_at)
     select id, account_id, agent_id, token, amount_minor * power(10::numeric, 36 - decimals), 'settled', created_at,
            updated_at
     from transactions where agent_id = $1`,
    [agentId],
  );
  await pool.query(`insert into usage_open (agent_id, token, atoms, count) values ($1, 'USDC', 0, 0)`, [agentId]);
  await pool.query(
    `insert into usage_totals (agent_id, token, level, slot, atoms, count)
     select agent_id, token, level - 1, floor(extract(epoch from instant) * 1000 / unit), sum(atoms), count(*)
     from reservations cross join unnest($2::bigint[]) with ordinality as levels (unit, level)
     where agent_id = $1
     group by agent_id, token, level, floor(extract(epoch from instant) * 1000 / unit)`,
    [agentId, levelUnitsMs],
  );
}

/** Payments that wait for their decision, in one statement. @returns their ids */
export async function insertPending(
  pool: Pool,
  { accountId, agentId, walletId }: DecisionAgent,
  { count }: { count: number },
): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId('tx'));
  await pool.query(
    `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
       from_address, to_address)
     select id, $2, $3, $4, $5, 'USDC', 'native', 6, 1000000, $6, $7 from unnest($1::text[]) id`,
    [ids, accountId, agentId, walletId, chain, fromAddress, toAddress],
  );
  return ids;
}
