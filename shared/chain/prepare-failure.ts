import { formatAmount } from '../domain/money.ts';
import type { PrepareFailure } from './adapter.ts';
import type { Token } from './registry.ts';

/** @param reason why the chain would not carry it out, as the end of a sentence */
export function simulationFailed(token: Token, reason: string): PrepareFailure {
  return {
    outcome: 'failed',
    code: 'simulation_failed',
    message: `The transfer of ${token.symbol} would fail on the chain: ${reason}.`,
    details: { token: token.symbol, reason },
  };
}

/** @param p.balance what the wallet holds, in minor units, as of a block */
export function tooLittle(p: { token: Token; balance: bigint; amountMinor: bigint; atBlock: number }): PrepareFailure {
  const { symbol, decimals } = p.token;
  const held = formatAmount(p.balance, decimals);
  const required = formatAmount(p.amountMinor, decimals);
  return {
    outcome: 'failed',
    code: 'insufficient_funds',
    message: `The wallet holds ${held} ${symbol}, less than the ${required} ${symbol} to be sent.`,
    details: { token: symbol, balance: held, required },
    atBlock: p.atBlock,
  };
}

/** @param p.native the chain's own coin @param p.spentMinor what of it is sent @param p.maxFeeMinor all in its minor units */
export function tooLittleForFee(p: {
  native: Token;
  balance: bigint;
  spentMinor: bigint;
  maxFeeMinor: bigint;
  atBlock: number;
}): PrepareFailure {
  const { symbol, decimals } = p.native;
  const write = (minor: bigint) => formatAmount(minor, decimals);
  const [balance, fee, required] = [write(p.balance), write(p.maxFeeMinor), write(p.spentMinor + p.maxFeeMinor)];
  const purpose = p.spentMinor === 0n ? `a fee of up to ${fee}` : `${write(p.spentMinor)} and a fee of up to ${fee}`;
  return {
    outcome: 'failed',
    code: 'insufficient_funds',
    // A transfer of the coin itself that leaves nothing for the fee is too large; a token's waits for some coins.
    ...(p.spentMinor === 0n && { mayPass: true as const }),
    message: `The wallet holds ${balance} ${symbol}, but ${purpose} ${symbol} need ${required} ${symbol}.`,
    details: { token: symbol, balance, required, max_fee: fee },
    atBlock: p.atBlock,
  };
}
