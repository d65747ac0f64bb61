import { createHash } from 'node:crypto';
import type { SignPayload } from '../shared/domain/receipt.ts';
import { walletName } from './address.ts';
import { readMovement } from './movement/read-movement.ts';

/** What one signature can cost its wallet at most, in one asset. */
export interface Charge {
  /** `<chain>/native` or `<chain>/<contract>`, of EVM chains in lower case; for example `eip155:8453/native`. */
  asset: string;
  amountMinor: bigint;
  /** Nothing but the fee of the transaction. */
  isFee: boolean;
}

/**
 * What a payload can cost: the payment, and the highest fee of a transaction. A no-op costs its fee; an authorisation
 * costs none. Every input of a Bitcoin transaction can cost the whole of it, which its slot counts once.
 * @param payload one that check-intent.ts has let through @param wallet address of the wallet that signs
 */
export function chargesOf(payload: SignPayload, wallet: string): Charge[] {
  const { chain, asset, amountMinor, maxFeeMinor } = readMovement(payload, wallet);
  const native = `${chain}/native`;
  if (asset === 'native') {
    return [{ asset: native, amountMinor: amountMinor + maxFeeMinor, isFee: amountMinor === 0n }];
  }
  const payment = { asset: `${chain}/${walletName(asset)}`, amountMinor, isFee: false };
  if (payload.kind === 'transfer-authorization') return [payment];
  return [payment, { asset: native, amountMinor: maxFeeMinor, isFee: true }];
}

/** A slot's name in spending: what other signers are told of it is short, and of one length. */
export const slotHash = (slot: string): string => createHash('sha256').update(slot).digest('base64url');
