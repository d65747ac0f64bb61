/** What a node said in so many words, as opposed to a connection that failed. */
export interface NodeAnswer {
  /** JSON-RPC error code, or HTTP status. */
  readonly code: number;
  readonly text: string;
  /** Revert data, where there is any. */
  readonly data: string | undefined;
}

/**
 * No endpoint of the chain gave a usable answer. A repeat may succeed. The message names neither address nor
 * credentials of an endpoint.
 */
export class RpcUnavailable extends Error {
  override readonly name = 'RpcUnavailable';
  readonly answer: NodeAnswer | undefined;
  constructor(message: string, { answer }: { answer?: NodeAnswer | undefined } = {}) {
    super(message);
    this.answer = answer;
  }
}

/** Fees are higher than this installation is willing to pay. A repeat succeeds once they have fallen. */
export class FeeAboveCeiling extends Error {
  override readonly name = 'FeeAboveCeiling';
  /**
   * @param p.needed the price now, in `unit`, as is `ceiling` @param p.unit for example "wei"
   * @param p.what what has this price, for example "a unit of gas"
   */
  constructor(p: { chain: string; needed: bigint | string; ceiling: bigint | string; unit: string; what: string }) {
    super(
      `${p.chain} asks ${p.needed} ${p.unit} for ${p.what} now, more than the ceiling of ${p.ceiling} ${p.unit}. ` +
        'The payment goes on when fees have fallen, or when the ceiling is raised.',
    );
  }
}
