import type { Address } from 'viem';
import type { PrepareResult, Transfer } from '../adapter.ts';
import { simulationFailed, tooLittle, tooLittleForFee } from '../prepare-failure.ts';
import type { Chain } from '../registry.ts';
import { minedTransactions, newestNumber } from './agreement.ts';
import { nativeBalanceAt, tokenBalanceAt } from './balance.ts';
import type { EvmClient } from './client.ts';
import { feeMarket } from './fee-market.ts';
import { chooseFees } from './fees.ts';
import type { EvmPrepared } from './prepared.ts';
import { paymentCall, simulateCall, simulateGas } from './simulate.ts';

/** A transfer that does nothing else costs exactly this. Source: yellow paper, G_transaction. */
const plainTransferGas = 21_000n;
/** Added to the estimate of a call, in percent: the state may have changed by the time it is mined. */
const gasMarginPercent = 25n;
/** A transfer that needs more than this does something else than transfer. */
const maxGas = 2_000_000n;

/**
 * Simulates a payment and says what it may cost. Two round trips: the newest block, then all questions at once; balances
 * are those of that block, so that it is known which payments they show already.
 * @param maxFeePerGasCeilingWei the most that a unit of gas may cost
 * @throws FeeAboveCeiling, RpcUnavailable: both may pass
 */
export async function prepareTransfer(
  client: EvmClient,
  {
    chain,
    from,
    to,
    token,
    amountMinor,
    maxFeePerGasCeilingWei,
  }: Transfer & {
    chain: Chain;
    maxFeePerGasCeilingWei: bigint;
  },
): Promise<PrepareResult<EvmPrepared>> {
  const native = chain.tokens[0]!;
  const call = paymentCall({ from, to, asset: token.asset, amountMinor });
  const block = await newestNumber(client);
  const [minedCount, nativeBalance, market, holding, returned, gas] = await Promise.all([
    minedTransactions(client, { owner: from }),
    nativeBalanceAt(client, { owner: from, block }),
    feeMarket(client),
    token.asset === 'native'
      ? undefined
      : tokenBalanceAt(client, { asset: token.asset as Address, owner: from, block }),
    token.asset === 'native' ? undefined : simulateCall(client, call),
    simulateGas(client, call),
  ]);
  const balance = holding ?? { ok: true as const, value: nativeBalance };
  if (!balance.ok) return simulationFailed(token, balance.reason);
  const atBlock = Number(block);
  if (balance.value < amountMinor) return tooLittle({ token, balance: balance.value, amountMinor, atBlock });
  if (returned && !returned.ok) return simulationFailed(token, returned.reason);
  if (returned && saysFalse(returned.value)) return simulationFailed(token, 'the token answers false');
  if (!gas.ok) return simulationFailed(token, gas.reason);
  const gasLimit = gas.value <= plainTransferGas ? gas.value : gas.value + (gas.value * gasMarginPercent) / 100n;
  if (gasLimit > maxGas) return simulationFailed(token, `it needs ${gasLimit} gas, more than ${maxGas}`);
  const fees = chooseFees({ chain: chain.id, ...market, ceilingWei: maxFeePerGasCeilingWei });
  const maxFeeWei = gasLimit * fees.maxFeePerGasWei;
  const spentMinor = token.asset === 'native' ? amountMinor : 0n;
  if (nativeBalance < spentMinor + maxFeeWei)
    return tooLittleForFee({ native, balance: nativeBalance, spentMinor, maxFeeMinor: maxFeeWei, atBlock });
  return {
    outcome: 'ready',
    minedCount,
    gas: gasLimit.toString(),
    maxFeePerGasWei: fees.maxFeePerGasWei.toString(),
    maxPriorityFeePerGasWei: fees.maxPriorityFeePerGasWei.toString(),
    maxFeeMinor: maxFeeWei.toString(),
    atBlock,
    balanceMinor: balance.value.toString(),
    nativeBalanceMinor: nativeBalance.toString(),
  };
}

/** Tokens return true, or nothing at all; older ones return false instead of reverting. Source: ERC-20, EIP-20 notes. */
function saysFalse(returned: string): boolean {
  return returned !== '0x' && !/[1-9a-f]/i.test(returned.slice(2));
}
