/** What a wallet holds of its chain's own coin, against what one usual transfer of a token costs. */
export interface GasReading {
  /** In minor units of the native coin. */
  readonly balanceMinor: bigint;
  /** The most that one usual transfer costs now, in minor units of the native coin; more than zero. */
  readonly transferMinor: bigint;
  /** Whether there is anything to send that needs coins for its fee. */
  readonly holdsTokens: boolean;
}

/** What was found the last time. */
export interface FormerGas {
  readonly balanceMinor: bigint;
  readonly isLow: boolean;
}

export interface GasJudgement {
  /** Usual transfers that the balance pays for; a million at most. */
  readonly transfersLeft: number;
  readonly isLow: boolean;
}

/** More says nothing. */
const mostTransfers = 1_000_000n;
/** Fees alone that fall end a shortage only with so many times the transfers, so that fees going up and down tell nobody twice. */
const clearOf = 2;

/**
 * Whether a wallet is low on coins for fees: it holds tokens, and pays for fewer transfers than is wished. That ends when
 * money has come and they are enough, or when they are twice as many without any.
 * @param lowTransfers how many are wished at least
 */
export function judgeGas(
  { balanceMinor, transferMinor, holdsTokens }: GasReading,
  { lowTransfers, former }: { lowTransfers: number; former: FormerGas | undefined },
): GasJudgement {
  const left = balanceMinor / transferMinor;
  const transfersLeft = Number(left < mostTransfers ? left : mostTransfers);
  const hasRisen = former !== undefined && balanceMinor > former.balanceMinor;
  const wished = former?.isLow && !hasRisen ? lowTransfers * clearOf : lowTransfers;
  return { transfersLeft, isLow: holdsTokens && transfersLeft < wished };
}

/** An agent of the account that sends coins for fees to the others on a chain, as it is set and on the wire. */
export interface GasTopUp {
  /** CAIP-2. */
  readonly chain: string;
  readonly funding_agent_id: string;
  /** Of the native coin, for each top-up, as a decimal string. */
  readonly amount: string;
  /** Top-ups on this chain in any 24 hours, of all wallets of the account together. */
  readonly max_per_day: number;
}
