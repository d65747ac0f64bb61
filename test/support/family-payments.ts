import { randomBytes } from 'node:crypto';
import type { CryptoKey } from 'jose';
import { familyOf } from '../../shared/chain/families.ts';
import type {
  BitcoinInput,
  BitcoinTransaction,
  PaymentIntent,
  PolicyReceipt,
  ReceiptWallet,
  TransactionPayload,
  TronTransaction,
} from '../../shared/domain/receipt.ts';
import { signReceipt } from '../../shared/receipt.ts';
import type { SignRequest } from '../../signer/coordinate-sign.ts';
import type { TestKey } from './payments.ts';

export const REGTEST = 'bip122:0f9188f13cb7b2c71f2a335e3a4fc328';
export const BITCOIN = 'bip122:000000000019d6689c085ae165831e93';
export const NILE = 'tron:0xcd8690dc';
/** Of the examples in BIP-173 and BIP-350, on regtest. */
export const BITCOIN_RECIPIENT = 'bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry';
export const TRON_RECIPIENT = 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8';
export const TRON_TOKEN = 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf';

/** A payment of a family other than EVM: what is to be signed, what it is said to be, and who pays. */
export interface FamilyPayment {
  wallet: ReceiptWallet;
  payload: TransactionPayload;
  intent: PaymentIntent;
  transactionId: string;
}

export function walletOf(key: TestKey, chain: string, index = 7): ReceiptWallet {
  const family = familyOf(chain);
  const path = `m/44/${family.coinType(chain)}/0/0/${index}`;
  return { key_id: key.keyId, path, address: family.deriveAddress({ ...key, path, chain }) };
}

export const someCoin = (valueSat = '100000'): BitcoinInput => ({
  txid: randomBytes(32).toString('hex'),
  vout: 1,
  valueSat,
});
let payments = 0;

/** 150,000 sat from two coins of 100,000 sat, at a fee of 1,000 sat. */
export function bitcoinPayment(key: TestKey, changes: Partial<BitcoinTransaction> = {}): FamilyPayment {
  const chain = changes.chain ?? REGTEST;
  const wallet = walletOf(key, chain);
  const transaction: BitcoinTransaction = {
    chain,
    inputs: [someCoin(), someCoin()],
    outputs: [
      { address: BITCOIN_RECIPIENT, valueSat: '150000' },
      { address: wallet.address, valueSat: '49000' },
    ],
    lockTime: 0,
    ...changes,
  };
  const intent = { chain, asset: 'native', to: BITCOIN_RECIPIENT, amount_minor: '150000', max_fee_minor: '1000' };
  return { wallet, payload: { kind: 'bitcoin-transaction', transaction }, intent, transactionId: `txn_b${++payments}` };
}

/** 5 TRX that cost 1.1 TRX besides. */
export function tronPayment(key: TestKey, changes: Partial<TronTransaction> = {}): FamilyPayment {
  const wallet = walletOf(key, NILE);
  const transaction: TronTransaction = {
    chain: NILE,
    from: wallet.address,
    contract: { type: 'transfer', to: TRON_RECIPIENT, amountSun: '5000000' },
    refBlockBytes: '8acb',
    refBlockHash: randomBytes(8).toString('hex'),
    timestampMs: Date.now(),
    expirationMs: Date.now() + 600_000,
    feeLimitSun: '0',
    bandwidthSun: '1100000',
    ...changes,
  };
  const asked = { asset: 'native', to: TRON_RECIPIENT, amount_minor: '5000000', max_fee_minor: '1100000' };
  const intent = { chain: NILE, ...asked };
  return { wallet, payload: { kind: 'tron-transaction', transaction }, intent, transactionId: `txn_t${++payments}` };
}

/** 7.5 units of a 6-decimals TRON_TOKEN. */
export function tronTokenPayment(key: TestKey, changes: Partial<TronTransaction> = {}): FamilyPayment {
  const data = `a9059cbb${'00'.repeat(12)}5cbdd86a2fa8dc4bddd8a8f69dba48572eec07fb${7_500_000n.toString(16).padStart(64, '0')}`;
  const contract = { type: 'trigger', contract: TRON_TOKEN, data } as const;
  const payment = tronPayment(key, { contract, feeLimitSun: '30000000', bandwidthSun: '345000', ...changes });
  const asked = { asset: TRON_TOKEN, amount_minor: '7500000', max_fee_minor: '30345000' };
  return { ...payment, intent: { ...payment.intent, ...asked } };
}

/** What the coordinator asks the signers for: one request for everything that is to be signed, in order. */
export async function requestsFor(
  payment: FamilyPayment,
  p: { policyKey: CryptoKey; receipt?: (valid: PolicyReceipt) => PolicyReceipt },
): Promise<SignRequest[]> {
  const { wallet, intent, payload, transactionId } = payment;
  const nowSeconds = Math.floor(Date.now() / 1000);
  const valid: PolicyReceipt = {
    ...{ account_id: 'acct_1', agent_id: 'agent_1', decision_id: 'dec_1', wallet, intent },
    ...{ transaction_id: transactionId, iat: nowSeconds, exp: nowSeconds + 60 },
  };
  const receipt = await signReceipt(p.policyKey, p.receipt ? p.receipt(valid) : valid);
  const { key_id: keyId, path, address } = wallet;
  return familyOf(intent.chain)
    .toSign(payload)
    .map((each) => ({ keyId, path, address, payload: each, receipt }));
}
