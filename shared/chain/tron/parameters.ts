const trx = 1_000_000n;

export interface TronParameters {
  /** How often the head is asked for while a payment waits; blocks are 3 s apart. */
  readonly pollMs: number;
  /** The most that one payment may cost, unless configured otherwise: several times what one of a token takes. */
  readonly maxFeeSun: bigint;
}

/** By CAIP-2 id. */
export const tronParameters: Readonly<Record<string, TronParameters>> = {
  'tron:0x2b6653dc': { pollMs: 2_000, maxFeeSun: 100n * trx },
  'tron:0xcd8690dc': { pollMs: 2_000, maxFeeSun: 500n * trx },
};
