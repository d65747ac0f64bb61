import { hexToBytes } from 'viem';
import type { TronTransaction } from '../../shared/domain/receipt.ts';
import { writeTronAddress } from '../digest/tron-address.ts';
import type { Movement } from './movement.ts';
import { readTokenCall } from './token-call.ts';

/**
 * A transfer of TRX, or a call of a token's contract. Nothing on Tron is a no-op: there is no place that could be used up.
 * @throws Refusal `unsupported_call`
 */
export function readTronMovement({ chain, from, contract, feeLimitSun, bandwidthSun }: TronTransaction): Movement {
  const common = {
    ...{ chain, from, isNoop: false, feeUnit: 'sun' as const },
    maxFeeMinor: BigInt(feeLimitSun) + BigInt(bandwidthSun),
  };
  if (contract.type === 'transfer') {
    return { ...common, asset: 'native', to: contract.to, amountMinor: BigInt(contract.amountSun) };
  }
  const { to, amountMinor } = readTokenCall(`0x${contract.data}`);
  return { ...common, asset: contract.contract, to: writeTronAddress(hexToBytes(to)), amountMinor };
}
