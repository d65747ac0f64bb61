import type { CryptoKey } from 'jose';
import type { EvmPrepared } from '../shared/chain/evm/prepared.ts';
import { familyOf } from '../shared/chain/families.ts';
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
  const family = familyOf(chain);
  const address = family.deriveAddress(key);
  let nonce = 0;
  return async () => {
    const intent: PaymentIntent = {
      chain,
      asset: 'native',
      to: recipient,
      amount_minor: '1',
      max_fee_minor: (gas * maxFeePerGasWei).toString(),
    };
    const prepared: EvmPrepared = {
      outcome: 'ready',
      minedCount: 0,
      gas: gas.toString(),
      maxFeePerGasWei: maxFeePerGasWei.toString(),
      maxPriorityFeePerGasWei: '1',
      maxFeeMinor: intent.max_fee_minor,
      atBlock: 0,
      balanceMinor: intent.amount_minor,
      nativeBalanceMinor: intent.amount_minor,
    };
    const places = { nextNonce: async () => nonce++, freeCoins: async () => [] };
    const built = await family.build({ intent, from: address, prepared, places });
    if (built.outcome !== 'built') throw new Error('The payment cannot be built.');
    const payload = family.toSign(built.payload)[0]!;
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
    return { keyId, path, address, payload, receipt };
  };
}
