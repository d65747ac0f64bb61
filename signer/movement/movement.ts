/** What a payload does, read from its own bytes. */
export interface Movement {
  /** CAIP-2 id. */
  chain: string;
  /** `native`, or the address of the token's contract. */
  asset: string;
  to: string;
  /** Minor units of the asset. */
  amountMinor: bigint;
  /** The most that it may cost besides, in minor units of the native coin. */
  maxFeeMinor: bigint;
  /** Name of those minor units. */
  feeUnit: 'wei' | 'sat' | 'sun';
  /** Who pays, where the payload says so. */
  from?: string;
  /** It only uses its place up: nothing is paid to anybody. */
  isNoop: boolean;
}
