import { createHash } from 'node:crypto';
import { decodeFunctionData, erc20Abi } from 'viem';
import type { SignPayload } from '../shared/domain/receipt.ts';

/** What one signature can cost its wallet at most, in one asset. */
export interface Charge {
  /** `<chain>/native` or `<chain>/<contract in lower case>`, for example `eip155:8453/native`. */
  asset: string;
  amountMinor: bigint;
  /** Nothing but the fee of the transaction. */
  isFee: boolean;
}

/**
 * What a payload can cost: the payment, and the highest fee of a transaction. A no-op costs its fee; an authorisation
 * costs none.
 * @param payload one that check-intent.ts has let through
 */
export function chargesOf(payload: SignPayload): Charge[] {
  if (payload.kind === 'transfer-authorization') {
    const { domain, value } = payload.authorization;
    const asset = `eip155:${domain.chainId}/${domain.verifyingContract.toLowerCase()}`;
    return [{ asset, amountMinor: BigInt(value), isFee: false }];
  }
  const { chainId, to, data, valueWei, gas, maxFeePerGasWei } = payload.transaction;
  const native = `eip155:${chainId}/native`;
  const feeWei = BigInt(gas) * BigInt(maxFeePerGasWei);
  if (data === '0x') {
    const value = BigInt(valueWei);
    return [{ asset: native, amountMinor: value + feeWei, isFee: value === 0n }];
  }
  const { functionName, args } = decodeFunctionData({ abi: erc20Abi, data });
  if (functionName !== 'transfer') throw new Error(`a call of ${functionName} has no charge`);
  return [
    { asset: `eip155:${chainId}/${to.toLowerCase()}`, amountMinor: args[1], isFee: false },
    { asset: native, amountMinor: feeWei, isFee: true },
  ];
}

/** A slot's name in spending: what other signers are told of it is short, and of one length. */
export const slotHash = (slot: string): string => createHash('sha256').update(slot).digest('base64url');
