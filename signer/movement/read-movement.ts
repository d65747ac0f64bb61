import type { SignPayload } from '../../shared/domain/receipt.ts';
import { readBitcoinMovement } from './bitcoin.ts';
import { readAuthorization, readEvmMovement } from './evm.ts';
import type { Movement } from './movement.ts';
import { readTronMovement } from './tron.ts';

/**
 * What a payload does if it is signed.
 * @param wallet address of the wallet that signs
 * @throws Refusal `unsupported_call` for whatever is no payment and no no-op
 */
export function readMovement(payload: SignPayload, wallet: string): Movement {
  switch (payload.kind) {
    case 'evm-transaction':
      return readEvmMovement(payload.transaction, wallet);
    case 'transfer-authorization':
      return readAuthorization(payload.authorization);
    case 'bitcoin-input':
      return readBitcoinMovement(payload.transaction, wallet);
    case 'tron-transaction':
      return readTronMovement(payload.transaction);
  }
}
