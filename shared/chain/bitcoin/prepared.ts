import type { PreparedTransfer, ReplacementTerms } from '../adapter.ts';
import type { Coin } from '../family.ts';

/** A confirmed coin of the wallet that nobody has spent, in the mempool neither. */
export interface BitcoinCoin extends Coin {
  /** Satoshis. */
  readonly valueSat: string;
}

/** Fee rates are in satoshis for a thousand virtual bytes, as nodes count them. */
export interface BitcoinRates {
  /** What a transaction pays that is to be mined soon. */
  readonly satPerKvb: string;
  /** The most that one may pay. */
  readonly ceilingSatPerKvb: string;
}

/** `maxFeeMinor` is what the payment costs if it takes the coins that it would take now. */
export interface BitcoinPrepared extends PreparedTransfer, BitcoinRates {
  /** The largest ones, largest first; see `maxCoins` where they are read. */
  readonly coins: readonly BitcoinCoin[];
}

export interface BitcoinReplacementTerms extends ReplacementTerms, BitcoinRates {
  /** What nodes asked for when they refused what is to be replaced. */
  readonly floorSatPerKvb?: string;
}
