import { RpcUnavailable } from '../errors.ts';
import { ask, type BitcoinClient } from './client.ts';
import { type BitcoinParameters, leastSatPerKvb } from './parameters.ts';

export type RateParameters = Pick<BitcoinParameters, 'withinBlocks' | 'quietSatPerKvb'>;

/**
 * What a transaction pays that is to be mined soon, in satoshis for a thousand virtual bytes; never less than nodes take.
 * @throws RpcUnavailable also when no server has an estimate
 */
export async function marketRate(
  client: BitcoinClient,
  { withinBlocks, quietSatPerKvb }: RateParameters,
): Promise<bigint> {
  const estimate = (await ask(client, (backend) => backend.feeRate({ withinBlocks }))) ?? quietSatPerKvb;
  if (estimate === undefined) throw new RpcUnavailable('No endpoint of the chain has an estimate of the fees.');
  if (estimate < leastSatPerKvb) return leastSatPerKvb;
  return estimate;
}
