import { randomBytes } from 'node:crypto';
import type { CryptoKey } from 'jose';
import { type Address, encodeFunctionData, erc20Abi, type Hex } from 'viem';
import { deriveEvmAddress } from '../../shared/chain/evm/derive-address.ts';
import type { EvmTransaction, PolicyReceipt, TransferAuthorization } from '../../shared/domain/receipt.ts';
import { signReceipt } from '../../shared/receipt.ts';
import type { SignRequest } from '../../signer/coordinate-sign.ts';

export const RECIPIENT: Address = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
export const TOKEN: Address = '0x5FbDB2315678afecb367f032d93F642f64180aa3';

export interface TestKey {
  keyId: string;
  publicKey: Hex;
  chainCode: Hex;
}

/** Signers never take a payment's id or a nonce for another payment, so every request has its own. */
const counters = { payment: 0, nonce: 0 };

/** 5 ether to RECIPIENT on the local chain, at a nonce that no other one has. */
export function nativeTransfer(changes: Partial<EvmTransaction> = {}): EvmTransaction {
  return {
    chainId: 31337,
    nonce: counters.nonce++,
    to: RECIPIENT,
    valueWei: '5000000000000000000',
    data: '0x',
    gas: '21000',
    maxFeePerGasWei: '2000000000',
    maxPriorityFeePerGasWei: '1000000000',
    ...changes,
  };
}

/** 7.5 units of a 6-decimals TOKEN to RECIPIENT. */
export function tokenTransfer(changes: Partial<EvmTransaction> = {}): EvmTransaction {
  const data = encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [RECIPIENT, 7_500_000n] });
  return nativeTransfer({ to: TOKEN, valueWei: '0', data, gas: '60000', ...changes });
}

/** A receipt for that payment; `exp` one minute from now. */
function receiptFor(key: TestKey, p: { path: string; intent?: Partial<PolicyReceipt['intent']> }): PolicyReceipt {
  const nowSeconds = Math.floor(Date.now() / 1000);
  return {
    account_id: 'acct_1',
    agent_id: 'agent_1',
    wallet: { key_id: key.keyId, path: p.path, address: deriveEvmAddress({ ...key, path: p.path }) },
    transaction_id: `txn_${++counters.payment}`,
    decision_id: 'dec_1',
    intent: {
      chain: 'eip155:31337',
      asset: 'native',
      to: RECIPIENT,
      amount_minor: '5000000000000000000',
      max_fee_minor: '1000000000000000',
      ...p.intent,
    },
    iat: nowSeconds,
    exp: nowSeconds + 60,
  };
}

/** A whole, valid request to sign; `receipt` and `transaction` may be bent by the caller. */
export async function signRequestFor(
  key: TestKey,
  p: {
    policyKey: CryptoKey;
    path?: string;
    transaction?: EvmTransaction;
    receipt?: (valid: PolicyReceipt) => PolicyReceipt;
  },
): Promise<SignRequest> {
  const path = p.path ?? 'm/44/60/0/0/7';
  const transaction = p.transaction ?? nativeTransfer();
  const isToken = transaction.data !== '0x';
  const valid = receiptFor(key, { path, intent: isToken ? { asset: TOKEN, amount_minor: '7500000' } : {} });
  const receipt = p.receipt ? p.receipt(valid) : valid;
  return {
    keyId: key.keyId,
    path,
    address: valid.wallet.address,
    payload: { kind: 'evm-transaction', transaction },
    receipt: await signReceipt(p.policyKey, receipt),
  };
}

/** 7.5 units of TOKEN to RECIPIENT, by authorisation, out of the wallet at `path`. */
function authorization(key: TestKey, path: string): TransferAuthorization {
  const nowSeconds = Math.floor(Date.now() / 1000);
  return {
    domain: { name: 'USD Coin', version: '2', chainId: 31337, verifyingContract: TOKEN },
    from: deriveEvmAddress({ ...key, path }),
    to: RECIPIENT,
    value: '7500000',
    validAfter: nowSeconds - 600,
    validBefore: nowSeconds + 60,
    nonce: `0x${randomBytes(32).toString('hex')}`,
  };
}

/** The same for an authorisation; the receipt allows the unbent one, and both may be bent by the caller. */
export async function authorizationRequestFor(
  key: TestKey,
  p: {
    policyKey: CryptoKey;
    payload?: (valid: TransferAuthorization) => TransferAuthorization;
    receipt?: (valid: PolicyReceipt) => PolicyReceipt;
  },
): Promise<SignRequest> {
  const path = 'm/44/60/0/0/7';
  const allowed = authorization(key, path);
  const valid = receiptFor(key, {
    path,
    intent: {
      asset: TOKEN,
      amount_minor: allowed.value,
      max_fee_minor: '0',
      authorization: { valid_after: allowed.validAfter, valid_before: allowed.validBefore, nonce: allowed.nonce },
    },
  });
  return {
    keyId: key.keyId,
    path,
    address: valid.wallet.address,
    payload: { kind: 'transfer-authorization', authorization: p.payload ? p.payload(allowed) : allowed },
    receipt: await signReceipt(p.policyKey, p.receipt ? p.receipt(valid) : valid),
  };
}
