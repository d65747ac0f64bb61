const gwei = 1_000_000_000n;

export interface EvmParameters {
  /** How often the head is asked for while a payment waits: a fraction of the time between blocks. */
  readonly pollMs: number;
  /** Blocks after which a payment that none has taken offers more: some minutes, where blocks have room. */
  readonly speedUpAfterBlocks: number;
  /** The most that a unit of gas may cost, unless configured otherwise: well above what busy days ask. */
  readonly maxFeePerGasCeilingWei: bigint;
}

/** By CAIP-2 id. */
export const evmParameters: Readonly<Record<string, EvmParameters>> = {
  'eip155:1': { pollMs: 3_000, speedUpAfterBlocks: 10, maxFeePerGasCeilingWei: 200n * gwei },
  'eip155:8453': { pollMs: 1_000, speedUpAfterBlocks: 30, maxFeePerGasCeilingWei: 20n * gwei },
  'eip155:84532': { pollMs: 1_000, speedUpAfterBlocks: 30, maxFeePerGasCeilingWei: 50n * gwei },
  'eip155:56': { pollMs: 1_000, speedUpAfterBlocks: 60, maxFeePerGasCeilingWei: 20n * gwei },
  'eip155:137': { pollMs: 1_000, speedUpAfterBlocks: 30, maxFeePerGasCeilingWei: 2_000n * gwei },
  'eip155:31337': { pollMs: 20, speedUpAfterBlocks: 20, maxFeePerGasCeilingWei: 500n * gwei },
};
