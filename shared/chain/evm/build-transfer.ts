import type { Hex } from 'viem';
import type { EvmTransaction, PaymentIntent } from '../../domain/receipt.ts';
import { evmChainId } from './chain-id.ts';
import type { EvmPrepared } from './prepared.ts';
import { transferData } from './transfer-data.ts';

/**
 * The one transaction that carries out an intent: a plain transfer of the native coin, or a call of the token's
 * `transfer`. Pure: the same input gives the same bytes.
 * @param prepared gas and fees as `prepare` found them
 * @throws RangeError when gas × maxFeePerGas is more than the intent allows
 */
export function buildTransfer({
  intent,
  nonce,
  prepared,
}: {
  intent: PaymentIntent;
  nonce: number;
  prepared: Pick<EvmPrepared, 'gas' | 'maxFeePerGasWei' | 'maxPriorityFeePerGasWei'>;
}): EvmTransaction {
  const feeWei = BigInt(prepared.gas) * BigInt(prepared.maxFeePerGasWei);
  if (feeWei > BigInt(intent.max_fee_minor))
    throw new RangeError(`The fee may reach ${feeWei} wei, but the intent allows ${intent.max_fee_minor} wei.`);
  if (!Number.isSafeInteger(nonce) || nonce < 0) throw new RangeError(`${nonce} is not a nonce.`);
  const call =
    intent.asset === 'native'
      ? { to: intent.to as Hex, valueWei: intent.amount_minor, data: '0x' as const }
      : {
          to: intent.asset as Hex,
          valueWei: '0',
          data: transferData({ to: intent.to, amountMinor: BigInt(intent.amount_minor) }),
        };
  return {
    chainId: evmChainId(intent.chain),
    nonce,
    ...call,
    gas: prepared.gas,
    maxFeePerGasWei: prepared.maxFeePerGasWei,
    maxPriorityFeePerGasWei: prepared.maxPriorityFeePerGasWei,
  };
}

/** A transfer costs exactly this. Source: yellow paper, G_transaction. */
const noopGas = '21000';

/** A transaction that only uses a nonce up: nothing, from the wallet to itself. Pure. */
export function buildNoop({
  chainId,
  address,
  nonce,
  fees,
}: {
  chainId: number;
  address: string;
  nonce: number;
  fees: { readonly maxFeePerGasWei: string; readonly maxPriorityFeePerGasWei: string };
}): EvmTransaction {
  const { maxFeePerGasWei, maxPriorityFeePerGasWei } = fees;
  const call = { to: address as EvmTransaction['to'], valueWei: '0', data: '0x' as const, gas: noopGas };
  return { chainId, nonce, ...call, maxFeePerGasWei, maxPriorityFeePerGasWei };
}
