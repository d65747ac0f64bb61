import { newestNumber } from './agreement.ts';
import { nativeBalanceAt } from './balance.ts';
import type { EvmClient } from './client.ts';
import { feeMarket } from './fee-market.ts';
import type { EvmReplacementTerms } from './prepared.ts';

/** Fees and the coins to pay them with, as they are now. @throws RpcUnavailable */
export async function replacementTerms(
  client: EvmClient,
  { owner, ceilingWei }: { owner: string; ceilingWei: bigint },
): Promise<EvmReplacementTerms> {
  const block = await newestNumber(client);
  const [{ baseFeeWei, tipWei }, balanceWei] = await Promise.all([
    feeMarket(client),
    nativeBalanceAt(client, { owner, block }),
  ]);
  return {
    baseFeeWei: baseFeeWei.toString(),
    tipWei: tipWei.toString(),
    ceilingWei: ceilingWei.toString(),
    atBlock: Number(block),
    nativeBalanceMinor: balanceWei.toString(),
  };
}
