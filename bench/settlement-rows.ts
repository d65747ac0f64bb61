import { serializeTransaction } from 'viem';
import type { Pool } from '../shared/db/pool.ts';
import { newId } from '../shared/ids.ts';

const chain = 'eip155:31337';
const fromAddress = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
const toAddress = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC';

/** What was sent: its bytes are read for what is told of the payment. Nobody checks this signature. */
export const signedBytes = serializeTransaction(
  {
    ...{ chainId: 31337, nonce: 1, to: toAddress, value: 0n, gas: 60_000n, type: 'eip1559' },
    ...{ maxFeePerGas: 2_000_000_000n, maxPriorityFeePerGas: 1_000_000_000n },
  },
  { r: `0x${'11'.repeat(32)}`, s: `0x${'22'.repeat(32)}`, yParity: 0 },
);

/** An account with agents whose payments are settled. */
export interface SettlementAccount {
  readonly accountId: string;
  readonly agents: readonly { readonly agentId: string; readonly walletId: string }[];
}

/** One account, with one webhook that wants every event. */
export async function insertSettlementAccount(pool: Pool, { agents: count }: { agents: number }) {
  const [accountId, keyId] = [newId('acct'), newId('ckey')];
  const agents = Array.from({ length: count }, () => ({ agentId: newId('agent'), walletId: newId('wal') }));
  await pool.query(`insert into accounts (id, name, plan) values ($1, 'Bench', 'enterprise')`, [accountId]);
  await pool.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
    keyId,
    accountId,
  ]);
  await pool.query(
    `insert into webhooks (id, account_id, url, secret, secret_key_id, secret_format)
     values ($1, $2, 'https://receiver.example', 'sealed', 'key', 'base64')`,
    [newId('whk'), accountId],
  );
  for (const [index, { agentId, walletId }] of agents.entries()) {
    await pool.query(`insert into agents (id, account_id, agent_name, chain) values ($1, $2, $1, $3)`, [
      agentId,
      accountId,
      chain,
    ]);
    await pool.query(`insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, $4, $5)`, [
      walletId,
      agentId,
      keyId,
      `m/44/60/0/0/${index}`,
      fromAddress,
    ]);
    await pool.query(`insert into usage_open (agent_id, token, atoms, count) values ($1, 'USDC', 0, 0)`, [agentId]);
  }
  return { accountId, agents } satisfies SettlementAccount;
}

/** Payments that are final on the chain and settled nowhere yet, the agents in turn. @returns their ids */
export async function insertFinal(pool: Pool, { accountId, agents }: SettlementAccount, { count }: { count: number }) {
  const ids = Array.from({ length: count }, () => newId('tx'));
  const ofAgents = ids.map((_, index) => agents[index % agents.length]!);
  await pool.query(
    `insert into transactions (id, account_id, agent_id, wallet_id, chain, token, asset, decimals, amount_minor,
       from_address, to_address, status_detail)
     select id, $2, agent, wallet, $5, 'USDC', '0x5FbDB2315678afecb367f032d93F642f64180aa3', 6, 1000000, $6, $7,
            'confirming'
     from unnest($1::text[], $3::text[], $4::text[]) as given (id, agent, wallet)`,
    [
      ids,
      accountId,
      ofAgents.map(({ agentId }) => agentId),
      ofAgents.map(({ walletId }) => walletId),
      ...[chain, fromAddress, toAddress],
    ],
  );
  const payments = `(select * from transactions where id = any($1::text[])) t`;
  await pool.query(
    `insert into reservations (payment_id, account_id, agent_id, token, atoms, state, instant)
     select id, account_id, agent_id, token, amount_minor * power(10::numeric, 30), 'reserved', created_at
     from ${payments}`,
    [ids],
  );
  await pool.query(
    `update usage_open o set atoms = o.atoms + r.atoms, count = o.count + r.count
     from (select agent_id, token, sum(atoms) as atoms, count(*) as count from reservations
           where payment_id = any($1::text[]) group by agent_id, token) r
     where o.agent_id = r.agent_id and o.token = r.token`,
    [ids],
  );
  await pool.query(
    `insert into holds (owner_id, wallet_id, chain, asset, amount_minor)
     select id, wallet_id, chain, asset, 1000000 from ${payments} union all
     select id, wallet_id, chain, 'native', 1000000000000000 from ${payments}`,
    [ids],
  );
  await pool.query(
    `insert into slots (wallet_id, chain, nonce, transaction_id, payload)
     select wallet_id, chain, coalesce((select max(nonce) + 1 from slots s where s.wallet_id = t.wallet_id), 0)
            + row_number() over (partition by wallet_id), id, '{}'
     from ${payments}`,
    [ids],
  );
  await pool.query(
    `insert into attempts (chain, hash, transaction_id, raw, sent_at, block_number, block_hash, succeeded, fee_minor,
       final_at)
     select chain, '0x' || encode(sha256(id::bytea), 'hex'), id, $2, now(), 100, '0x', true, 21000000000000, now()
     from ${payments}`,
    [ids, signedBytes],
  );
  return ids;
}
