import type { EvmTransaction, TransferAuthorization } from '../../shared/domain/receipt.ts';
import { walletName } from '../address.ts';
import { Refusal } from '../refusal.ts';
import type { Movement } from './movement.ts';
import { readTokenCall } from './token-call.ts';

/**
 * A native transfer has no call data; a token transfer has value 0 and one call. A transfer of nothing of the native coin
 * to the wallet itself is a no-op.
 * @throws Refusal `unsupported_call`
 */
export function readEvmMovement(tx: EvmTransaction, wallet: string): Movement {
  const common = {
    chain: `eip155:${tx.chainId}`,
    maxFeeMinor: BigInt(tx.gas) * BigInt(tx.maxFeePerGasWei),
    feeUnit: 'wei',
  } as const;
  if (tx.data === '0x') {
    const isNoop = tx.valueWei === '0' && walletName(tx.to) === walletName(wallet);
    return { ...common, asset: 'native', to: tx.to, amountMinor: BigInt(tx.valueWei), isNoop };
  }
  if (tx.valueWei !== '0') {
    throw new Refusal('unsupported_call', `a token transfer carries value 0, this one carries ${tx.valueWei} wei`);
  }
  return { ...common, asset: tx.to, ...readTokenCall(tx.data), isNoop: false };
}

/** Whoever has it carried out pays the fee. */
export function readAuthorization({ domain, from, to, value }: TransferAuthorization): Movement {
  return {
    ...{ chain: `eip155:${domain.chainId}`, asset: domain.verifyingContract, from, to, amountMinor: BigInt(value) },
    ...{ maxFeeMinor: 0n, feeUnit: 'wei', isNoop: false },
  };
}
