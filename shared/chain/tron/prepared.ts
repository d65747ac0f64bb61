import type { PreparedTransfer } from '../adapter.ts';

/** What a payment on Tron is built from. `maxFeeMinor` is `feeLimitSun` and `bandwidthSun` together. */
export interface TronPrepared extends PreparedTransfer {
  /** See `TronTransaction` in shared/domain/receipt.ts. */
  readonly refBlockBytes: string;
  readonly refBlockHash: string;
  readonly timestampMs: number;
  readonly expirationMs: number;
  readonly feeLimitSun: string;
  readonly bandwidthSun: string;
  /**
   * Time of the newest solidified block when the transaction that the payment was to be before was in no block, Unix
   * milliseconds; null where there was none.
   */
  readonly formerAbsentAtMs: number | null;
}
