import type { EvmTransaction, TransactionPayload } from '../../shared/domain/receipt.ts';

/** The transaction of a payload that is one of an EVM chain. */
export function evmOf(payload: TransactionPayload): EvmTransaction {
  if (payload.kind !== 'evm-transaction') throw new TypeError(payload.kind);
  return payload.transaction;
}
