import { formatAmount } from '../../domain/money.ts';
import type { PrepareFailure, PrepareResult, Transfer } from '../adapter.ts';
import { FeeAboveCeiling } from '../errors.ts';
import type { Chain, Token } from '../registry.ts';
import type { BitcoinClient } from './client.ts';
import { agreedHoldings } from './holdings.ts';
import type { BitcoinPrepared } from './prepared.ts';
import type { createCoinProof } from './prove-coins.ts';
import { quoteTransfer } from './quote-transfer.ts';
import { marketRate, type RateParameters } from './rates.ts';

/** Of a fee rate as people write it: satoshis for a virtual byte. */
const rateDecimals = 3;

/**
 * Says what a payment may be built from and what it may cost: the wallet's confirmed coins, all as of one block, and the
 * fee rate.
 * @param prove says which coins are what servers say; a payment is made of these alone
 * @param ceilingSatPerKvb the most that a thousand virtual bytes may cost
 * @throws FeeAboveCeiling, RpcUnavailable: both may pass
 */
export async function prepareTransfer(
  client: BitcoinClient,
  {
    chain,
    from,
    to,
    token,
    amountMinor,
    ceilingSatPerKvb,
    rateParameters,
    prove,
  }: Transfer & {
    chain: Chain;
    ceilingSatPerKvb: bigint;
    rateParameters: RateParameters;
    prove: ReturnType<typeof createCoinProof>;
  },
): Promise<PrepareResult<BitcoinPrepared>> {
  const [{ atBlock, confirmedSat, freeSat, coins }, satPerKvb] = await Promise.all([
    agreedHoldings(client, { owner: from }),
    marketRate(client, rateParameters),
  ]);
  if (confirmedSat < amountMinor)
    return { ...tooLittle({ token, balanceSat: confirmedSat, amountSat: amountMinor }), atBlock };
  if (satPerKvb > ceilingSatPerKvb)
    throw new FeeAboveCeiling({
      chain: chain.id,
      needed: formatAmount(satPerKvb, rateDecimals),
      ceiling: formatAmount(ceilingSatPerKvb, rateDecimals),
      unit: 'satoshis',
      what: 'a virtual byte',
    });
  const rates = { satPerKvb: satPerKvb.toString(), ceilingSatPerKvb: ceilingSatPerKvb.toString() };
  const payment = { chain: chain.id, from, to, amountSat: amountMinor };
  const balances = { balanceSat: confirmedSat, underWaySat: confirmedSat - freeSat };
  const quote = quoteTransfer({ payment, coins, rates, ...balances });
  if (quote.outcome === 'impossible') return simulationFailed(token, quote.reason);
  const { feeSat } = quote;
  if (quote.outcome === 'short')
    return { ...tooLittleForFee({ token, balanceSat: confirmedSat, amountSat: amountMinor, feeSat }), atBlock };
  const proven = await prove({ owner: from, coins });
  // What is under way is no more certain than the coins that are missing.
  const isEnough = () =>
    quoteTransfer({ payment, coins: proven.coins, rates, ...balances, underWaySat: 0n }).outcome === 'payable';
  if (proven.doubt && !isEnough()) throw proven.doubt;
  return {
    outcome: 'ready',
    ...rates,
    coins: proven.coins,
    maxFeeMinor: feeSat.toString(),
    atBlock,
    balanceMinor: confirmedSat.toString(),
    nativeBalanceMinor: confirmedSat.toString(),
  };
}

function simulationFailed(token: Token, reason: string): PrepareFailure {
  return {
    outcome: 'failed',
    code: 'simulation_failed',
    message: `The transfer of ${token.symbol} would fail on the chain: ${reason}.`,
    details: { token: token.symbol, reason },
  };
}

function tooLittle({
  token,
  balanceSat,
  amountSat,
}: {
  token: Token;
  balanceSat: bigint;
  amountSat: bigint;
}): PrepareFailure {
  const held = formatAmount(balanceSat, token.decimals);
  const required = formatAmount(amountSat, token.decimals);
  return {
    outcome: 'failed',
    code: 'insufficient_funds',
    message: `The wallet holds ${held} ${token.symbol}, less than the ${required} ${token.symbol} to be sent.`,
    details: { token: token.symbol, balance: held, required },
  };
}

function tooLittleForFee({
  token,
  balanceSat,
  amountSat,
  feeSat,
}: {
  token: Token;
  balanceSat: bigint;
  amountSat: bigint;
  feeSat: bigint;
}): PrepareFailure {
  const write = (sat: bigint) => formatAmount(sat, token.decimals);
  const [balance, fee, required] = [write(balanceSat), write(feeSat), write(amountSat + feeSat)];
  const purpose = `${write(amountSat)} and a fee of ${fee}`;
  return {
    outcome: 'failed',
    code: 'insufficient_funds',
    message: `The wallet holds ${balance} ${token.symbol}, but ${purpose} ${token.symbol} need ${required} ${token.symbol}.`,
    details: { token: token.symbol, balance, required, max_fee: fee },
  };
}
