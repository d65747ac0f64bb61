import type { EvmClient } from './client.ts';
import { feeMarket } from './fee-market.ts';
import { usualFee } from './fees.ts';

/** A transfer of USDC or USDT to a new holder takes some 65,000; with the margin that payments have, about this. */
const usualTransferGas = 80_000n;

/** What a usual transfer of a token costs at most now, in wei. @throws RpcUnavailable */
export async function transferFee(client: EvmClient, { ceilingWei }: { ceilingWei: bigint }): Promise<bigint> {
  return usualTransferGas * usualFee({ ...(await feeMarket(client)), ceilingWei });
}
