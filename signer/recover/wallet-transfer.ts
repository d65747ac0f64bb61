/** One transfer that empties a wallet of a token, or of as many coins as one transaction takes. */
export interface WalletTransfer {
  path: string;
  from: string;
  /** `native`, or the address of a contract. */
  asset: string;
  amountMinor: string;
  /** The most that the transfer itself can cost, in minor units of the chain's own coin. */
  feeMinor: string;
  /** Of a transfer that was sent. */
  hash?: string;
  /** Why it was not sent, or did not happen. */
  problem?: string;
}
