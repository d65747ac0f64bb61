import { isAddressEqual } from 'viem';
import type { SignPayload } from '../shared/domain/receipt.ts';
import { authorizationSlot, transactionSlot } from '../shared/domain/slot.ts';
import { readMovement } from './check-intent.ts';
import type { SlotUse } from './records.ts';

/** What a signature is recorded as. @throws Refusal `unsupported_call` */
export function useOf(p: {
  keyId: string;
  address: `0x${string}`;
  payload: SignPayload;
  transactionId: string;
  decisionId: string;
  replaces: readonly string[];
}): SlotUse {
  const { keyId, transactionId, decisionId, replaces, payload } = p;
  return {
    ...{ keyId, transactionId, decisionId, replaces },
    slot: slotOf(payload, p.address),
    intent: intentOf(payload, p.address),
    validBefore: payload.kind === 'transfer-authorization' ? payload.authorization.validBefore : null,
  };
}

/** The place that a payload takes, of which the chain executes one thing at most. See shared/domain/slot.ts. */
function slotOf(payload: SignPayload, wallet: string): string {
  if (payload.kind === 'evm-transaction') return transactionSlot({ ...payload.transaction, wallet });
  return authorizationSlot(payload.authorization);
}

/**
 * What a payload pays: asset, recipient and amount, in lower case. Empty for what pays nobody, a transfer of nothing of
 * the native coin to the wallet itself, which only uses its nonce up.
 * @throws Refusal `unsupported_call`
 */
function intentOf(payload: SignPayload, wallet: `0x${string}`): string {
  if (payload.kind === 'transfer-authorization') {
    const { domain, to, value } = payload.authorization;
    return `${domain.verifyingContract}/${to}/${value}`.toLowerCase();
  }
  const { asset, to, amountMinor } = readMovement(payload.transaction);
  if (asset === 'native' && amountMinor === 0n && isAddressEqual(to, wallet)) return '';
  return `${asset}/${to}/${amountMinor}`.toLowerCase();
}
