/** Fee rates are in satoshis for a thousand virtual bytes. */
export interface BitcoinParameters {
  /** How often the newest block is asked for while a payment waits: a fraction of the time between blocks. */
  readonly pollMs: number;
  /** Blocks after which a payment that none has taken offers more. */
  readonly speedUpAfterBlocks: number;
  /** The most that a transaction may pay, unless configured otherwise: well above what busy days ask. */
  readonly ceilingSatPerKvb: bigint;
  /** Blocks within which a payment is to be mined. */
  readonly withinBlocks: number;
  /** Where servers have no estimate because nobody pays much there; undefined: a payment waits for one. */
  readonly quietSatPerKvb: bigint | undefined;
}

const satPerVbyte = 1_000n;

/**
 * The least that every node takes and passes on. Servers do not tell their own; an estimate is never below it.
 * Source: Bitcoin Core, DEFAULT_MIN_RELAY_TX_FEE until version 29, and estimatesmartfee.
 */
export const leastSatPerKvb = 1n * satPerVbyte;

/** By CAIP-2 id. */
export const bitcoinParameters: Readonly<Record<string, BitcoinParameters>> = {
  'bip122:000000000019d6689c085ae165831e93': {
    pollMs: 15_000,
    speedUpAfterBlocks: 6,
    ceilingSatPerKvb: 500n * satPerVbyte,
    withinBlocks: 3,
    quietSatPerKvb: undefined,
  },
  'bip122:000000000933ea01ad0ee984209779ba': {
    pollMs: 15_000,
    speedUpAfterBlocks: 6,
    ceilingSatPerKvb: 500n * satPerVbyte,
    withinBlocks: 3,
    quietSatPerKvb: 2n * satPerVbyte,
  },
  'bip122:0f9188f13cb7b2c71f2a335e3a4fc328': {
    pollMs: 100,
    speedUpAfterBlocks: 20,
    ceilingSatPerKvb: 500n * satPerVbyte,
    withinBlocks: 3,
    quietSatPerKvb: 2n * satPerVbyte,
  },
};
