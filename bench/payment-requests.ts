import type { CryptoKey } from 'jose';
import { deriveEvmAddress } from '../shared/chain/derive-address.ts';
import { buildTransfer } from '../shared/chain/evm/build-transfer.ts';
import type { PaymentIntent } from '../shared/domain/receipt.ts';
import { newId } from '../shared/ids.ts';
import { signReceipt } from '../shared/receipt.ts';
import type { SignRequest } from '../signer/coordinate-sign.ts';
import { recipient } from './payments.ts';

const receiptLifetimeSeconds = 600;
const gas = 21_000n;
const maxFeePerGasWei = 2_000_000_000n;

/** The key of an account, of which a child pays. */
export interface PayingKey {
  readonly keyId: string;
  readonly publicKey: `0x${string}`;
  readonly chainCode: `0x${string}`;
  readonly path: string;
  readonly accountId: string;
  readonly chain: string;
}

/** Requests to sign, each a payment of its own: the signers have nothing to give again. */
export function createPaymentRequests(key: PayingKey, policyKey: CryptoKey): () => Promise<SignRequest> {
  const { keyId, path, accountId, chain } = key;
  const address = deriveEvmAddress(key);
  let nonce = 0;
  return async () => {
    const intent: PaymentIntent = {
      chain,
      asset: 'native',
      to: recipient,
      amount_minor: '1',
      max_fee_minor: (gas * maxFeePerGasWei).toString(),
    };
    const prepared = {
      outcome: 'ready' as const,
      minedCount: 0,
      gas: gas.toString(),
      maxFeePerGasWei: maxFeePerGasWei.toString(),
      maxPriorityFeePerGasWei: '1',
      maxFeeMinor: intent.max_fee_minor,
    };
    const transaction = buildTransfer({ intent, nonce, prepared });
    nonce += 1;
    const iat = Math.floor(Date.now() / 1000);
    const receipt = await signReceipt(policyKey, {
      account_id: accountId,
      agent_id: newId('agent'),
      wallet: { key_id: keyId, path, address },
      transaction_id: newId('tx'),
      decision_id: newId('dec'),
      intent,
      iat,
      exp: iat + receiptLifetimeSeconds,
    });
    return { keyId, path, address, payload: { kind: 'evm-transaction', transaction }, receipt };
  };
}
