import type { BitcoinTransaction, SignPayload, TronTransaction } from '../shared/domain/receipt.ts';
import { authorizationSlot, coinSlot, expiringSlot, transactionSlot } from '../shared/domain/slot.ts';
import { walletName } from './address.ts';
import { digestOfTronTransaction } from './digest/tron.ts';
import { readMovement } from './movement/read-movement.ts';
import type { BoundCoin, SlotUse } from './records.ts';

/** What a signature is recorded as. @throws Refusal `unsupported_call` */
export function useOf(p: {
  keyId: string;
  address: string;
  payload: SignPayload;
  transactionId: string;
  decisionId: string;
  replaces: readonly string[];
}): SlotUse {
  const { keyId, transactionId, decisionId, replaces, payload, address } = p;
  return {
    ...{ keyId, transactionId, decisionId, replaces },
    slot: slotOf(payload, address),
    coins: payload.kind === 'bitcoin-input' ? coinsOf(payload.transaction) : [],
    intent: intentOf(payload, address),
    validBefore: validBeforeOf(payload),
  };
}

/** The place that a payload takes, of which the chain executes one thing at most. See shared/domain/slot.ts. */
function slotOf(payload: SignPayload, wallet: string): string {
  switch (payload.kind) {
    case 'evm-transaction':
      return transactionSlot({ ...payload.transaction, wallet });
    case 'transfer-authorization':
      return authorizationSlot(payload.authorization);
    case 'bitcoin-input':
      return coinsOf(payload.transaction)[0]!.slot;
    case 'tron-transaction':
      return tronSlot(payload.transaction);
  }
}

/** All coins that a transaction spends, the anchor first. */
function coinsOf({ chain, inputs }: BitcoinTransaction): BoundCoin[] {
  return inputs.map(({ txid, vout, valueSat }) => ({ slot: coinSlot({ chain, txid, vout }), valueSat }));
}

function tronSlot(transaction: TronTransaction): string {
  const { chain, from: wallet } = transaction;
  return expiringSlot({ chain, wallet, hash: digestOfTronTransaction(transaction).slice(2) });
}

/** Unix seconds, rounded up. */
function validBeforeOf(payload: SignPayload): number | null {
  if (payload.kind === 'transfer-authorization') return payload.authorization.validBefore;
  return payload.kind === 'tron-transaction' ? Math.ceil(payload.transaction.expirationMs / 1000) : null;
}

/** What a payload pays: asset, recipient and amount, as records name them. Empty for what pays nobody. */
function intentOf(payload: SignPayload, wallet: string): string {
  const { asset, to, amountMinor, isNoop } = readMovement(payload, wallet);
  return isNoop ? '' : `${walletName(asset)}/${walletName(to)}/${amountMinor}`;
}
