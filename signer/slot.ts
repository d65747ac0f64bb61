import { isAddressEqual } from 'viem';
import type { SignPayload } from '../shared/domain/receipt.ts';
import { authorizationSlot, transactionSlot } from '../shared/domain/slot.ts';
import { readMovement } from './check-intent.ts';

/** The place that a payload takes, of which the chain executes one thing at most. See shared/domain/slot.ts. */
export function slotOf(payload: SignPayload, wallet: string): string {
  if (payload.kind === 'evm-transaction') return transactionSlot({ ...payload.transaction, wallet });
  return authorizationSlot(payload.authorization);
}

/**
 * What a payload pays: asset, recipient and amount, in lower case. Empty for what pays nobody, a transfer of nothing of
 * the native coin to the wallet itself, which only uses its nonce up.
 * @throws Refusal `unsupported_call`
 */
export function intentOf(payload: SignPayload, wallet: `0x${string}`): string {
  if (payload.kind === 'transfer-authorization') {
    const { domain, to, value } = payload.authorization;
    return `${domain.verifyingContract}/${to}/${value}`.toLowerCase();
  }
  const { asset, to, amountMinor } = readMovement(payload.transaction);
  if (asset === 'native' && amountMinor === 0n && isAddressEqual(to, wallet)) return '';
  return `${asset}/${to}/${amountMinor}`.toLowerCase();
}
