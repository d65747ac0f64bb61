import { canonicalDecimal, isDecimal, parseAtoms, toAtoms } from './money.ts';

/** What is charged from an amount on. */
export interface FeeTier {
  /** In units of the token, inclusive. */
  readonly fromAmount: string;
  /** Percent. */
  readonly rate: string;
}

export interface Fee {
  readonly feeMinor: bigint;
  /** Percent. */
  readonly rate: string;
}

const hundredPercent = 100n * 10n ** 36n;
/** A table that people can read. */
const maxTiers = 20;

/**
 * Reads `0=1,100=0.5`: one percent, and half of one from an amount of 100 on.
 * @returns the tiers, or what is wrong
 */
export function readFeeTiers(text: string): readonly FeeTier[] | string {
  const parts = text.split(',').map((part) => part.trim());
  if (parts.length > maxTiers) return `has more than ${maxTiers} tiers`;
  const tiers: FeeTier[] = [];
  for (const part of parts) {
    const [from = '', rate = '', ...more] = part.split('=');
    if (more.length > 0 || !isDecimal(from) || !isDecimal(rate)) return `has "${part}", which is not like 100=0.5`;
    const [fromAtoms, rateAtoms] = [parseAtoms(from), parseAtoms(rate)];
    if (typeof fromAtoms !== 'bigint' || typeof rateAtoms !== 'bigint') return `has too many decimals in "${part}"`;
    if (rateAtoms > hundredPercent) return `charges more than 100 percent in "${part}"`;
    const before = tiers.at(-1);
    if (!before && fromAtoms !== 0n) return 'must begin with a tier for all amounts, such as 0=0.5';
    if (before && fromAtoms <= atomsOf(before.fromAmount)) return `is not in ascending order at "${part}"`;
    tiers.push({ fromAmount: canonicalDecimal(from), rate: canonicalDecimal(rate) });
  }
  return tiers;
}

/**
 * The fee of a payment, by the tier that its amount is in; what is less than a minor unit is not charged.
 * @param tiers in ascending order, the first one from 0 on
 */
export function feeOf({
  amountMinor,
  decimals,
  tiers,
}: {
  amountMinor: bigint;
  decimals: number;
  tiers: readonly FeeTier[];
}): Fee {
  const amount = toAtoms(amountMinor, decimals);
  const tier = tiers.findLast(({ fromAmount }) => atomsOf(fromAmount) <= amount);
  if (!tier) throw new Error('No fee tier begins at 0.');
  return { feeMinor: (amountMinor * atomsOf(tier.rate)) / hundredPercent, rate: tier.rate };
}

function atomsOf(decimal: string): bigint {
  const atoms = parseAtoms(decimal);
  if (typeof atoms !== 'bigint') throw new Error(`"${decimal}" of a fee tier is not a decimal.`);
  return atoms;
}
