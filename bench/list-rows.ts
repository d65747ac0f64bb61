import pg from 'pg';

/** Rows of the rare kind, however many others there are. */
const rareRows = 30;
/** Months, this one included, over which the rows are spread. */
const months = 13;
/** Rows that one statement inserts. */
const chunk = 1_000_000;

/** Whose rows are looked at: nine of ten are theirs, and one agent has half of them. */
export const big = {
  account: 'acct_big',
  agent: 'agent_0',
  webhook: 'whk_big',
  wallet: 'wal_big',
  key: 'ckey_big',
} as const;

export type LoadedList = 'events' | 'audit_logs' | 'webhook_deliveries' | 'transactions';

/**
 * What every list has of row i of n: whose it is, of which agent, whether it is of the rare kind, whether one of the
 * hundredth part that is of another kind than most, and when it was.
 */
const spread = `
  select i, lpad(i::text, 26, '0') as suffix,
         case when i % 10 > 0 or is_rare then '${big.account}' else 'acct_' || i / 10 % 99 end as account,
         case when i % 2 = 0 or is_rare then '${big.agent}' else 'agent_' || 1 + i / 2 % 49 end as agent,
         case when i % 10 > 0 or is_rare then '${big.webhook}' else 'whk_' || i / 10 % 99 end as webhook,
         is_rare, i % 100 = 3 as is_odd,
         now() - interval '1 minute' - (now() - (date_trunc('month', now()) - interval '${months - 1} months'))
           * (1 - i::float8 / $3) as instant
  from generate_series($1::bigint, $2::bigint) i cross join lateral (select i % greatest($3 / ${rareRows}, 1) = 1 as is_rare) r`;

/** Of 300 bytes, as payments are. */
const data = `('{"id":"tx_' || suffix || '","token":"USDC","amount":"12.50","memo":"invoice","status":"pending","to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","hash":"0x${'c0ffee00'.repeat(16)}"}')::json`;

/** Statements that insert rows $1 to $2 of $3. */
const inserts: Readonly<Record<LoadedList, readonly string[]>> = {
  events: [
    `insert into events (id, account_id, type, resource_type, resource_id, agent_id, data, created_at)
     select 'evt_' || suffix, account,
            case when is_rare then 'agent.low_gas' when is_odd then 'payment.failed'
                 when i % 2 = 0 then 'payment.pending' else 'payment.completed' end,
            'transaction', 'tx_' || i / 2, agent, ${data}, instant
     from (${spread}) s`,
  ],
  audit_logs: [
    `insert into audit_logs (id, account_id, seq, action, actor_type, actor_id, resource_type, resource_id, agent_id,
       result, metadata, prev_hash, hash, created_at)
     select 'aud_' || suffix, account, i,
            case when is_rare then 'webhook.created' when i % 3 = 0 then 'transaction.created'
                 when i % 3 = 1 then 'transaction.evaluated' else 'transaction.signed' end,
            'api_key', 'key_' || i % 5, case when is_rare then 'webhook' else 'transaction' end, 'tx_' || i / 3, agent,
            case when is_rare then 'error' when is_odd then 'denied' else 'success' end, ${data},
            lpad(to_hex(i), 64, '0'), lpad(to_hex(i + 1), 64, '0'), instant
     from (${spread}) s`,
  ],
  webhook_deliveries: [
    `insert into webhook_deliveries (id, account_id, webhook_id, event_id, event_type, status, attempt, status_code,
       response_time_ms, failure_reason, response_body, next_attempt_at, dispatched_at, created_at, updated_at)
     select 'dlv_' || suffix, account, webhook, 'evt_' || suffix,
            case when is_rare then 'webhook.disabled' when i % 2 = 0 then 'payment.pending' else 'payment.completed' end,
            case when is_rare then 'pending' when is_odd then 'failed' else 'succeeded' end, 1,
            case when is_odd then 500 else 200 end, 25, case when is_odd then 'non_2xx' end, '{"received":true}',
            case when is_rare then instant + interval '10 hours' end, instant, instant, instant
     from (${spread}) s`,
    `insert into webhook_attempts (delivery_id, number, status_code, response_time_ms, failure_reason, response_body,
       created_at)
     select 'dlv_' || suffix, 1, case when is_odd then 500 else 200 end, 25, case when is_odd then 'non_2xx' end,
            '{"received":true}', instant
     from (${spread}) s`,
  ],
  transactions: [
    `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
       from_address, to_address, status, status_detail, failure_code, decision_id, hash, nonce, block_number, created_at,
       updated_at)
     select 'tx_' || suffix, account, case when account = '${big.account}' then agent else account || agent end,
            '${big.wallet}', 'eip155:31337', 'USDC', 'native', 6, 1000000,
            '0x70997970C51812dc3A010C7d01b50e0d17dc79C8', '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
            case when is_rare then 'pending' when is_odd then 'failed' else 'confirmed' end,
            case when is_rare then 'broadcast' when is_odd then 'failed' else 'confirmed' end,
            case when is_odd and not is_rare then 'reverted' end, 'dec_' || suffix, '0x' || lpad(to_hex(i), 64, '0'), i, i,
            instant, instant
     from (${spread}) s`,
  ],
};

/** What the triggers would have counted. */
const counts: Readonly<Record<LoadedList, string>> = {
  events: `(account_id), (account_id || '/type=' || type)`,
  audit_logs: `(account_id), (account_id || '/action=' || action), (account_id || '/actor=' || actor_id),
    (account_id || '/resource_type=' || resource_type), (account_id || '/result=' || result),
    (account_id || '/agent=' || agent_id), (account_id || '/agent=' || agent_id || '/result=' || result)`,
  webhook_deliveries: `(webhook_id), (webhook_id || '/type=' || event_type), (webhook_id || '/status=' || status)`,
  transactions: `(account_id), (account_id || '/agent=' || agent_id), (account_id || '/status=' || status),
    (account_id || '/agent=' || agent_id || '/status=' || status)`,
};

const countedColumns: Readonly<Record<LoadedList, string>> = {
  events: 'account_id, type',
  audit_logs: 'account_id, action, actor_id, resource_type, result, agent_id',
  webhook_deliveries: 'webhook_id, event_type, status',
  transactions: 'account_id, agent_id, status',
};

const tablesOf: Readonly<Record<LoadedList, readonly string[]>> = {
  events: ['events'],
  audit_logs: ['audit_logs'],
  webhook_deliveries: ['webhook_deliveries', 'webhook_attempts'],
  transactions: ['transactions'],
};

/**
 * Fills a list of an empty database, with the indexes and the counts that it has in service, as soon after as
 * autovacuum has seen to it.
 * @param url of a superuser: rows are loaded without their triggers
 */
export async function loadRows({
  url,
  list,
  count,
  signal,
}: {
  url: string;
  list: LoadedList;
  count: number;
  signal: AbortSignal;
}): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(
      `set session_replication_role = replica; set maintenance_work_mem = '1GB'; set synchronous_commit = off`,
    );
    await insertOwners(client);
    for (const table of tablesOf[list]) if (table !== 'transactions') await makeMonths(client, table);
    const indexes = await dropIndexes(client, tablesOf[list]);
    for (const insert of inserts[list])
      for (let first = 1; first <= count; first += chunk) {
        signal.throwIfAborted();
        await client.query(insert, [first, Math.min(first + chunk - 1, count), count]);
      }
    for (const { definition } of indexes) {
      signal.throwIfAborted();
      await client.query(definition);
    }
    await client.query(
      `insert into list_counts (list, key, month, count)
       select '${list}', k.key, c.month, sum(c.n)
       from (select ${countedColumns[list]}, month_of(created_at) as month, count(*) as n from ${list}
             group by ${countedColumns[list]}, month_of(created_at)) c
       cross join lateral (values ${counts[list]}) k (key) where k.key is not null
       group by k.key, c.month`,
    );
    await client.query('vacuum (analyze)');
  } finally {
    await client.end();
  }
}

/** Whom new rows belong to. */
async function insertOwners(client: pg.Client): Promise<void> {
  const { account, agent, wallet, key } = big;
  await client.query(`insert into accounts (id, name, plan) values ($1, 'Bench', 'enterprise')`, [account]);
  await client.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
    key,
    account,
  ]);
  await client.query(`insert into agents (id, account_id, agent_name, chain) values ($1, $2, 'A', 'eip155:31337')`, [
    agent,
    account,
  ]);
  await client.query(
    `insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, 'm/0', '0x')`,
    [wallet, agent, key],
  );
}

async function makeMonths(client: pg.Client, table: string): Promise<void> {
  await client.query(
    `select make_partition($1, (month_of(now()) - i * interval '1 month')::date) from generate_series(0, $2::int) i`,
    [table, months - 1],
  );
}

/** Indexes are built faster than they are kept. @returns what makes them anew */
async function dropIndexes(client: pg.Client, tables: readonly string[]): Promise<{ definition: string }[]> {
  const { rows } = await client.query<{ name: string; definition: string }>(
    `select i.indexname as name, replace(i.indexdef, ' ON ONLY ', ' ON ') as definition from pg_indexes i
     where i.schemaname = 'public' and i.tablename = any ($1) and i.indexname not in (select conname from pg_constraint)`,
    [tables],
  );
  for (const { name } of rows) await client.query(`drop index ${name}`);
  return rows;
}
