import { serializeTransaction } from 'viem';
import type { Pool } from '../../shared/db/pool.ts';
import { insertTransaction } from '../../shared/db/transactions.ts';
import { newId } from '../../shared/ids.ts';

export interface TestAgent {
  readonly accountId: string;
  readonly agentId: string;
  readonly walletId: string;
}

/** The rows of an agent with an account and a wallet of its own; the wallet's key exists nowhere. */
export async function insertTestAgent(pool: Pool): Promise<TestAgent> {
  const [accountId, agentId, walletId, keyId] = [newId('acct'), newId('agent'), newId('wal'), newId('ckey')];
  await pool.query(`insert into accounts (id, name, plan) values ($1, 'Test', 'enterprise')`, [accountId]);
  await pool.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
    keyId,
    accountId,
  ]);
  await pool.query(`insert into agents (id, account_id, agent_name, chain) values ($1, $2, 'Agent', 'eip155:31337')`, [
    agentId,
    accountId,
  ]);
  await pool.query(
    `insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, 'm/44/60/0/0/0', $4)`,
    [walletId, agentId, keyId, '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'],
  );
  return { accountId, agentId, walletId };
}

/** Where the test tokens live; any will do, no chain is asked. */
const assets = {
  USDC: { asset: '0x5FbDB2315678afecb367f032d93F642f64180aa3', decimals: 6 },
  USDT: { asset: '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512', decimals: 6 },
  DAI: { asset: '0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0', decimals: 18 },
  ETH: { asset: 'native', decimals: 18 },
} as const;

/** A stored payment that nobody works on yet. */
export async function insertTestPayment(
  pool: Pool,
  agent: TestAgent,
  { amountMinor = 1_000_000n, token = 'USDC' }: { amountMinor?: bigint; token?: keyof typeof assets } = {},
): Promise<string> {
  const { id } = await insertTransaction(pool, {
    ...agent,
    id: newId('tx'),
    chain: 'eip155:31337',
    token,
    ...assets[token],
    amountMinor,
    fromAddress: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
    toAddress: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
    memo: undefined,
  });
  return id;
}

/** Signed bytes of some payment, where it does not matter of which: nothing is sent. */
export const signedBytes = serializeTransaction(
  { type: 'eip1559', chainId: 31337, nonce: 0, gas: 21_000n, maxFeePerGas: 2n, maxPriorityFeePerGas: 1n },
  { r: `0x${'1'.repeat(64)}`, s: `0x${'2'.repeat(64)}`, yParity: 0 },
);
