import {
  createTestClient,
  type Hex,
  http,
  parseTransaction,
  publicActions,
  serializeSignature,
  type TransactionSerializedEIP1559,
  walletActions,
} from 'viem';
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts';
import { anvil } from 'viem/chains';
import { assemble } from '../../shared/chain/evm/assemble.ts';
import { buildTransfer } from '../../shared/chain/evm/build-transfer.ts';
import { createEvmAdapter } from '../../shared/chain/evm/create-evm-adapter.ts';
import type { EvmPrepared } from '../../shared/chain/evm/prepared.ts';
import { type Chain, createRegistry, type Token } from '../../shared/chain/registry.ts';
import { type AttemptRow, findAttempts } from '../../shared/db/attempts.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { getTransaction, insertTransaction, type TransactionRow } from '../../shared/db/transactions.ts';
import type { EvmTransaction } from '../../shared/domain/receipt.ts';
import { newId } from '../../shared/ids.ts';
import { startTestChain, type TestChain } from './anvil.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';

/** A chain, a database and wallets whose keys the test holds, in place of the signers. */
export interface ChainWorld {
  readonly local: TestChain;
  readonly database: TestDatabase;
  readonly pool: Pool;
  readonly chain: Chain;
  readonly usdc: Token;
  readonly eth: Token;
  /** Plays the chain's operator: mining, reorganisations, dropped transactions, deployments. */
  readonly node: ReturnType<typeof operator>;
  adapter(o?: {
    confirmations?: number;
    urls?: readonly string[];
    maxFeePerGasCeilingWei?: bigint;
  }): ReturnType<typeof createEvmAdapter>;
  /** A funded wallet with its rows. */
  wallet(o?: { eth?: string; usdc?: string }): Promise<TestWallet>;
  /** The row of a payment, as the api stores it. */
  payment(o: { wallet: TestWallet; to: string; token: Token; amountMinor: bigint }): Promise<TransactionRow>;
  transaction(id: string): Promise<TransactionRow>;
  attempts(transactionId: string): Promise<AttemptRow[]>;
  close(): Promise<void>;
}

export interface TestWallet {
  readonly account: PrivateKeyAccount;
  readonly accountId: string;
  readonly agentId: string;
  readonly walletId: string;
}

function operator(rpcUrl: string) {
  return createTestClient({ mode: 'anvil', chain: anvil, transport: http(rpcUrl), cacheTime: 0, pollingInterval: 50 })
    .extend(publicActions)
    .extend(walletActions);
}

export async function createChainWorld(): Promise<ChainWorld> {
  const [local, database] = await Promise.all([startTestChain(), createTestDatabase()]);
  const pool = createPool({ url: database.url, application: 'test' });
  const registry = createRegistry({
    environment: 'sandbox',
    enabled: [local.chain],
    extraTokens: [
      {
        chain: local.chain,
        symbol: 'USDC',
        decimals: 6,
        asset: local.usdcAddress,
        domain: { name: 'USD Coin', version: '2' },
      },
    ],
  });
  const chain = registry.chains[0]!;
  return {
    local,
    database,
    pool,
    chain,
    eth: chain.tokens[0]!,
    usdc: registry.token(chain.id, 'USDC')!,
    node: operator(local.rpcUrl),
    adapter: ({ confirmations = 1, urls = [local.rpcUrl], maxFeePerGasCeilingWei } = {}) =>
      createEvmAdapter({ chain: { ...chain, confirmations }, urls, maxFeePerGasCeilingWei }),
    wallet: (o) => createWallet({ local, pool }, o),
    payment: ({ wallet, to, token, amountMinor }) =>
      insertTransaction(pool, {
        id: newId('tx'),
        accountId: wallet.accountId,
        agentId: wallet.agentId,
        walletId: wallet.walletId,
        chain: local.chain,
        token: token.symbol,
        asset: token.asset,
        decimals: token.decimals,
        amountMinor,
        fromAddress: wallet.account.address,
        toAddress: to,
        memo: undefined,
      }),
    transaction: async (id) => (await getTransaction(pool, { id }))!,
    attempts: (transactionId) => findAttempts(pool, { transactionId }),
    async close() {
      await pool.end();
      await Promise.all([local.stop(), database.drop()]);
    },
  };
}

async function createWallet(
  { local, pool }: { local: TestChain; pool: Pool },
  funds?: { eth?: string; usdc?: string },
): Promise<TestWallet> {
  const account = privateKeyToAccount(generatePrivateKey());
  const [accountId, agentId, walletId, keyId] = [newId('acct'), newId('agent'), newId('wal'), newId('ckey')];
  await pool.query(`insert into accounts (id, name, plan) values ($1, 'Test', 'enterprise')`, [accountId]);
  await pool.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
    keyId,
    accountId,
  ]);
  await pool.query(`insert into agents (id, account_id, agent_name, chain) values ($1, $2, 'Agent', $3)`, [
    agentId,
    accountId,
    local.chain,
  ]);
  await pool.query(`insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, 'm/0', $4)`, [
    walletId,
    agentId,
    keyId,
    account.address,
  ]);
  await local.fund(account.address, funds);
  return { account, accountId, agentId, walletId };
}

/** Builds and signs a stored payment, as allot and sign do. */
export async function signPayment({
  wallet,
  row,
  prepared,
  nonce = prepared.minedCount,
}: {
  wallet: TestWallet;
  row: TransactionRow;
  prepared: EvmPrepared;
  nonce?: number;
}): Promise<{ raw: Hex; hash: Hex; transaction: EvmTransaction }> {
  const transaction = buildTransfer({
    intent: {
      chain: row.chain,
      asset: row.asset,
      to: row.to_address as Hex,
      amount_minor: row.amount_minor,
      max_fee_minor: prepared.maxFeeMinor,
    },
    nonce,
    prepared,
  });
  return { ...(await signTransaction({ wallet, transaction })), transaction };
}

export async function signTransaction({
  wallet,
  transaction,
}: {
  wallet: TestWallet;
  transaction: EvmTransaction;
}): Promise<{ raw: Hex; hash: Hex }> {
  const serialized = await wallet.account.signTransaction({
    type: 'eip1559',
    chainId: transaction.chainId,
    nonce: transaction.nonce,
    to: transaction.to,
    value: BigInt(transaction.valueWei),
    data: transaction.data,
    gas: BigInt(transaction.gas),
    maxFeePerGas: BigInt(transaction.maxFeePerGasWei),
    maxPriorityFeePerGas: BigInt(transaction.maxPriorityFeePerGasWei),
  });
  const signature = parseSigned(serialized);
  return assemble({ transaction, signature });
}

/** Signature of signed bytes, as the signers return it: r | s | v. */
function parseSigned(serialized: Hex): Hex {
  const { r, s, yParity } = parseTransaction(serialized as TransactionSerializedEIP1559);
  return serializeSignature({ r: r!, s: s!, yParity: yParity! });
}

/** Polls for a condition; fails after the deadline with what was seen last. */
export async function until<T>(
  look: () => Promise<T>,
  isRight: (seen: T) => boolean,
  { timeoutMs = 60_000 }: { timeoutMs?: number } = {},
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const seen = await look();
    if (isRight(seen)) return seen;
    if (Date.now() > deadline) throw new Error(`Not within ${timeoutMs} ms; last seen: ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
