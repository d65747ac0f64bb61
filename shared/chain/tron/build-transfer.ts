import type { PaymentIntent, TronContract, TronTransaction } from '../../domain/receipt.ts';
import type { TronPrepared } from './prepared.ts';
import { transferData } from './transfer-data.ts';

/**
 * The one transaction that carries out an intent: a plain transfer of TRX, or a call of the token's `transfer`.
 * Pure: the same input gives the same bytes.
 * @param prepared reference block, times and fees as `prepare` found them
 * @throws RangeError when the fees are more than the intent allows
 */
export function buildTransfer({
  intent,
  from,
  prepared,
}: {
  intent: PaymentIntent;
  from: string;
  prepared: TronPrepared;
}): TronTransaction {
  const { refBlockBytes, refBlockHash, timestampMs, expirationMs, feeLimitSun, bandwidthSun } = prepared;
  const feeSun = BigInt(feeLimitSun) + BigInt(bandwidthSun);
  if (feeSun > BigInt(intent.max_fee_minor))
    throw new RangeError(`The fee may reach ${feeSun} sun, but the intent allows ${intent.max_fee_minor} sun.`);
  return {
    chain: intent.chain,
    from,
    contract: contractFor(intent),
    ...{ refBlockBytes, refBlockHash, timestampMs, expirationMs, feeLimitSun, bandwidthSun },
  };
}

function contractFor({ asset, to, amount_minor }: PaymentIntent): TronContract {
  if (asset === 'native') return { type: 'transfer', to, amountSun: amount_minor };
  return { type: 'trigger', contract: asset, data: transferData({ to, amountMinor: BigInt(amount_minor) }) };
}
