import { p2wpkh, Transaction } from '@scure/btc-signer';
import { pubECDSA, randomPrivateKeyBytes } from '@scure/btc-signer/utils.js';
import type { ChainAdapter, PreparedTransfer } from '../../shared/chain/adapter.ts';
import { createBitcoinAdapter } from '../../shared/chain/bitcoin/create-bitcoin-adapter.ts';
import { bitcoinFamily } from '../../shared/chain/bitcoin/family.ts';
import { type Chain, createRegistry, type Token } from '../../shared/chain/registry.ts';
import { type AttemptRow, findAttempts } from '../../shared/db/attempts.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { getTransaction, insertTransaction, type TransactionRow } from '../../shared/db/transactions.ts';
import type { BitcoinTransaction } from '../../shared/domain/receipt.ts';
import { newId } from '../../shared/ids.ts';
import { regtestNetwork } from './bitcoin-ledger.ts';
import { startTestBitcoin, type TestBitcoin } from './btcd.ts';
import { createTestDatabase } from './database.ts';

/** A Bitcoin network, a database and wallets whose keys the test holds, in place of the signers. */
export interface BitcoinWorld {
  readonly bitcoin: TestBitcoin;
  readonly pool: Pool;
  readonly chain: Chain;
  readonly btc: Token;
  adapter(o?: {
    confirmations?: number;
    urls?: readonly string[];
    ceilingSatPerKvb?: bigint;
    speedUpAfterBlocks?: number;
  }): ChainAdapter;
  /** A wallet with its rows, and a confirmed coin for each amount in satoshis; default one of 1 BTC. */
  wallet(o?: { coinsSat?: readonly bigint[] }): Promise<BitcoinWallet>;
  /** The row of a payment, as the api stores it. */
  payment(o: { wallet: BitcoinWallet; to: string; amountMinor: bigint }): Promise<TransactionRow>;
  transaction(id: string): Promise<TransactionRow>;
  attempts(transactionId: string): Promise<AttemptRow[]>;
  close(): Promise<void>;
}

export interface BitcoinWallet {
  readonly privateKey: Uint8Array;
  readonly address: string;
  readonly accountId: string;
  readonly agentId: string;
  readonly walletId: string;
}

export async function createBitcoinWorld(): Promise<BitcoinWorld> {
  const [bitcoin, database] = await Promise.all([startTestBitcoin(), createTestDatabase()]);
  const pool = createPool({ url: database.url, application: 'test' });
  const chain = createRegistry({ environment: 'sandbox', enabled: [bitcoin.chain] }).chains[0]!;
  const btc = chain.tokens[0]!;
  return {
    bitcoin,
    pool,
    chain,
    btc,
    adapter: ({ confirmations = 1, urls = [bitcoin.url], ...rest } = {}) =>
      createBitcoinAdapter({ chain: { ...chain, confirmations }, urls, ...rest }),
    wallet: (o) => createWallet({ bitcoin, pool }, o),
    payment: ({ wallet, to, amountMinor }) =>
      insertTransaction(pool, {
        id: newId('tx'),
        accountId: wallet.accountId,
        agentId: wallet.agentId,
        walletId: wallet.walletId,
        chain: chain.id,
        token: btc.symbol,
        asset: btc.asset,
        decimals: btc.decimals,
        amountMinor,
        fromAddress: wallet.address,
        toAddress: to,
        memo: undefined,
      }),
    transaction: async (id) => (await getTransaction(pool, { id }))!,
    attempts: (transactionId) => findAttempts(pool, { transactionId }),
    async close() {
      await pool.end();
      await Promise.all([bitcoin.stop(), database.drop()]);
    },
  };
}

async function createWallet(
  { bitcoin, pool }: { bitcoin: TestBitcoin; pool: Pool },
  { coinsSat = [100_000_000n] }: { coinsSat?: readonly bigint[] } = {},
): Promise<BitcoinWallet> {
  const privateKey = randomPrivateKeyBytes();
  const address = ownScriptOf(privateKey).address!;
  const [accountId, agentId, walletId, keyId] = [newId('acct'), newId('agent'), newId('wal'), newId('ckey')];
  await pool.query(`insert into accounts (id, name, plan) values ($1, 'Test', 'enterprise')`, [accountId]);
  await pool.query(`insert into account_keys (id, account_id, public_key, chain_code) values ($1, $2, '0x', '0x')`, [
    keyId,
    accountId,
  ]);
  await pool.query(`insert into agents (id, account_id, agent_name, chain) values ($1, $2, 'Agent', $3)`, [
    agentId,
    accountId,
    bitcoin.chain,
  ]);
  await pool.query(`insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, 'm/0', $4)`, [
    walletId,
    agentId,
    keyId,
    address,
  ]);
  if (coinsSat.length > 0) await bitcoin.pay(coinsSat.map((valueSat) => ({ address, valueSat })));
  return { privateKey, address, accountId, agentId, walletId };
}

/** The one transaction of a payment, from what the chain said of the wallet. */
export async function buildPayment({
  wallet,
  row,
  prepared,
}: {
  wallet: Pick<BitcoinWallet, 'address'>;
  row: Pick<TransactionRow, 'chain' | 'to_address' | 'amount_minor'>;
  prepared: PreparedTransfer;
}): Promise<BitcoinTransaction> {
  const built = await bitcoinFamily.build({
    intent: {
      chain: row.chain,
      asset: 'native',
      to: row.to_address!,
      amount_minor: row.amount_minor,
      max_fee_minor: prepared.maxFeeMinor,
    },
    from: wallet.address,
    prepared,
    places: { nextNonce: async () => 0, freeCoins: async (coins) => [...coins] },
  });
  if (built.outcome !== 'built' || built.payload.kind !== 'bitcoin-transaction') throw new Error(built.outcome);
  return built.payload.transaction;
}

/** Another transaction for the same coins. */
export function replacePayment(p: {
  wallet: Pick<BitcoinWallet, 'address'>;
  before: BitcoinTransaction;
  purpose: 'payment' | 'noop';
  satPerKvb: bigint;
}): BitcoinTransaction {
  const replaced = bitcoinFamily.replace({
    before: { kind: 'bitcoin-transaction', transaction: p.before },
    isSigned: true,
    purpose: p.purpose,
    from: p.wallet.address,
    terms: {
      atBlock: 0,
      nativeBalanceMinor: '0',
      ...{ satPerKvb: p.satPerKvb.toString(), ceilingSatPerKvb: '1000000' },
    },
  });
  if ('refusal' in replaced || replaced.payload.kind !== 'bitcoin-transaction')
    throw new Error('refusal' in replaced ? replaced.refusal : replaced.payload.kind);
  return replaced.payload.transaction;
}

/** Signs with the wallet's key, by the library alone. */
export function signBitcoin({
  wallet,
  transaction: { inputs, outputs, lockTime },
}: {
  wallet: Pick<BitcoinWallet, 'privateKey'>;
  transaction: Pick<BitcoinTransaction, 'inputs' | 'outputs' | 'lockTime'>;
}): { raw: string; hash: string; vsize: number } {
  const { script } = ownScriptOf(wallet.privateKey);
  const signed = new Transaction({ version: 2, lockTime });
  for (const { txid, vout, valueSat } of inputs)
    signed.addInput({
      ...{ txid, index: vout, sequence: 0xfffffffd },
      witnessUtxo: { script, amount: BigInt(valueSat) },
    });
  for (const { address, valueSat } of outputs) signed.addOutputAddress(address, BigInt(valueSat), regtestNetwork);
  signed.sign(wallet.privateKey);
  signed.finalize();
  return { raw: signed.hex, hash: signed.id, vsize: signed.vsize };
}

function ownScriptOf(privateKey: Uint8Array) {
  return p2wpkh(pubECDSA(privateKey), regtestNetwork);
}
