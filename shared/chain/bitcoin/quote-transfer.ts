import { formatAmount } from '../../domain/money.ts';
import { chooseCoins, maxInputs, mostPayable, type Payment } from './choose-coins.ts';
import type { BitcoinCoin, BitcoinRates } from './prepared.ts';
import { dustLimit } from './size.ts';

/**
 * - `payable`: what it costs with the coins that it would take now, or would cost once payments under way have ended.
 * - `short`: the wallet has too little, all in all; `feeSat` is what the fee would be.
 * - `impossible`: it has enough, but nodes would not take such a payment; `reason` is the end of a sentence.
 */
export type TransferQuote =
  | { readonly outcome: 'payable' | 'short'; readonly feeSat: bigint }
  | { readonly outcome: 'impossible'; readonly reason: string };

/**
 * What a payment would cost, by the arithmetic with which it is built. Pure.
 * @param p.coins confirmed ones that nobody is spending
 * @param p.balanceSat what all confirmed coins hold, also those that are being spent
 * @param p.underWaySat what those hold that are being spent: of this some comes back as change
 */
export function quoteTransfer({
  payment,
  coins,
  rates,
  balanceSat,
  underWaySat,
}: {
  payment: Payment;
  coins: readonly BitcoinCoin[];
  rates: BitcoinRates;
  balanceSat: bigint;
  underWaySat: bigint;
}): TransferQuote {
  const chosen = chooseCoins({ payment, coins, rates });
  const most = mostPayable({ payment, coins, rates });
  const feeSat = chosen?.feeSat ?? most.feeSat;
  if (balanceSat < payment.amountSat + feeSat) return { outcome: 'short', feeSat };
  const reason = refusalOf(payment);
  if (reason) return { outcome: 'impossible', reason };
  if (chosen || most.amountSat + underWaySat >= payment.amountSat) return { outcome: 'payable', feeSat };
  return {
    outcome: 'impossible',
    reason: `the wallet's money lies in many small coins; one transaction takes ${maxInputs} of them, which pay ${write(most.amountSat)} BTC at most`,
  };
}

const write = (sat: bigint) => formatAmount(sat, 8);

/** Why no node would take a payment, whatever its coins and its fee, as the end of a sentence; undefined: it may be made. */
export function refusalOf({ chain, from, to, amountSat }: Payment): string | undefined {
  if (to === from) return 'the wallet would pay itself, which moves nothing and costs a fee';
  const leastSat = dustLimit(to, chain);
  if (amountSat >= leastSat) return undefined;
  return `${write(amountSat)} BTC are dust: nodes pass on nothing below ${write(leastSat)} BTC for an address of this kind`;
}
