import { FeeAboveCeiling } from '../errors.ts';

/** Base fees can rise by an eighth a block: twice the present one lasts six full blocks. Source: EIP-1559. */
const baseFeeHeadroom = 2n;

export interface Fees {
  readonly maxFeePerGasWei: bigint;
  readonly maxPriorityFeePerGasWei: bigint;
}

/**
 * The fees of a payment: room for rising base fees, but never above the ceiling.
 * @param baseFeeWei of the next block
 * @param tipWei what the node suggests for the block's producer
 * @throws FeeAboveCeiling when not even the next block could take it at the ceiling
 */
export function chooseFees({
  chain,
  baseFeeWei,
  tipWei,
  ceilingWei,
}: {
  chain: string;
  baseFeeWei: bigint;
  tipWei: bigint;
  ceilingWei: bigint;
}): Fees {
  const neededWei = baseFeeWei + tipWei;
  if (neededWei > ceilingWei) throw new FeeAboveCeiling({ chain, neededWei, ceilingWei });
  const roomyWei = baseFeeWei * baseFeeHeadroom + tipWei;
  return { maxFeePerGasWei: roomyWei < ceilingWei ? roomyWei : ceilingWei, maxPriorityFeePerGasWei: tipWei };
}
