import type { PreparedTransfer, ReplacementTerms } from '../adapter.ts';

/** What the fees and the gas of a payment on an EVM chain may be. `maxFeeMinor` is `gas × maxFeePerGas`. */
export interface EvmPrepared extends PreparedTransfer {
  /** How many transactions of the sender are mined: the lowest nonce that the chain would still take. */
  readonly minedCount: number;
  /** Gas limit. */
  readonly gas: string;
  readonly maxFeePerGasWei: string;
  readonly maxPriorityFeePerGasWei: string;
}

/** What another transaction at a nonce in use may cost now, in wei. */
export interface EvmReplacementTerms extends ReplacementTerms {
  /** Base fee of the next block. */
  readonly baseFeeWei: string;
  /** What the node suggests for the block's producer. */
  readonly tipWei: string;
  /** The most that a unit of gas may cost. */
  readonly ceilingWei: string;
}
