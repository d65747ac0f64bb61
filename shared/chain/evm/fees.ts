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
  if (neededWei > ceilingWei)
    throw new FeeAboveCeiling({ chain, needed: neededWei, ceiling: ceilingWei, unit: 'wei', what: 'a unit of gas' });
  const roomyWei = baseFeeWei * baseFeeHeadroom + tipWei;
  return { maxFeePerGasWei: roomyWei < ceilingWei ? roomyWei : ceilingWei, maxPriorityFeePerGasWei: tipWei };
}

/** What a unit of gas of a payment would offer, in wei, or the ceiling where that is above it; at least one. */
export function usualFee({
  baseFeeWei,
  tipWei,
  ceilingWei,
}: {
  baseFeeWei: bigint;
  tipWei: bigint;
  ceilingWei: bigint;
}): bigint {
  return larger(1n, smaller(baseFeeWei * baseFeeHeadroom + tipWei, ceilingWei));
}

/** Nodes take a replacement only for at least a tenth more. Source: geth, Besu, Erigon, Nethermind and Reth by default. */
const replacementPercent = 110n;

/** The least that a replacement offers: a tenth more, rounded up, and one wei for those who round otherwise. */
const raised = (wei: bigint): bigint => (wei * replacementPercent + 99n) / 100n + 1n;

const larger = (one: bigint, other: bigint): bigint => (one > other ? one : other);
const smaller = (one: bigint, other: bigint): bigint => (one < other ? one : other);

/**
 * The fees of a replacement: a tenth more than before on both, and as much as a new payment would offer now.
 * @param before the highest fees that were signed at this nonce
 * @returns undefined when the ceiling leaves no room for it
 */
export function raiseFees({
  before,
  baseFeeWei,
  tipWei,
  ceilingWei,
}: {
  before: Fees;
  baseFeeWei: bigint;
  tipWei: bigint;
  ceilingWei: bigint;
}): Fees | undefined {
  const leastWei = raised(before.maxFeePerGasWei);
  if (leastWei > ceilingWei) return undefined;
  const wantedTipWei = larger(raised(before.maxPriorityFeePerGasWei), tipWei);
  const roomyWei = baseFeeWei * baseFeeHeadroom + wantedTipWei;
  const maxFeePerGasWei = smaller(larger(leastWei, roomyWei), ceilingWei);
  return { maxFeePerGasWei, maxPriorityFeePerGasWei: smaller(wantedTipWei, maxFeePerGasWei) };
}
