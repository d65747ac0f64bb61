import { readPrices } from './answers.ts';
import { type TronEndpoints, tronCall } from './node.ts';
import { viewSolid } from './solid-view.ts';

/** A transfer of USDT to a new holder takes about this, to another one half of it. */
const usualEnergy = 131_000n;
/** Of a signed call of `transfer`, as the chain counts it. */
const usualBytes = 345n;

/**
 * What a usual transfer of a token burns at most now, in sun. Energy and bandwidth that the wallet has staked are not
 * counted, as in payments. @throws RpcUnavailable
 */
export async function transferFee(endpoints: TronEndpoints, { ceilingSun }: { ceilingSun: bigint }): Promise<bigint> {
  const view = await viewSolid(endpoints, [tronCall('wallet', 'getchainparameters')]);
  const { sunPerEnergy, sunPerByte } = view.said(0, readPrices);
  const costSun = usualEnergy * sunPerEnergy + usualBytes * sunPerByte;
  const mostSun = costSun < ceilingSun ? costSun : ceilingSun;
  // A private chain may take nothing.
  return mostSun > 0n ? mostSun : 1n;
}
