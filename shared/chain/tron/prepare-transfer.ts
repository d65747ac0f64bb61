import { randomInt } from 'node:crypto';
import type { TransactionPayload } from '../../domain/receipt.ts';
import type { PrepareResult, Transfer } from '../adapter.ts';
import { simulationFailed, tooLittle, tooLittleForFee } from '../prepare-failure.ts';
import type { Chain } from '../registry.ts';
import { formerAbsentAt } from './absence.ts';
import { readAccount, readPrices, type TronBlock } from './answers.ts';
import { accountCall, tokenBalance } from './balances.ts';
import { buildTransfer } from './build-transfer.ts';
import { bandwidthBytes, bandwidthFee, energyFeeLimit } from './fees.ts';
import { type TronEndpoints, tronCall } from './node.ts';
import type { TronPrepared } from './prepared.ts';
import { balanceCall, readSimulated, transferCall } from './simulate.ts';
import { viewSolid } from './solid-view.ts';

/** From the newest block on: ten times what waits for a block at worst, and well below the day that a node allows. */
const lifeMs = 10 * 60_000;
/** Expirations are as much as a block's time earlier by chance. */
const blockMs = 3_000;
/** A transfer that takes more than this does something else than transfer. */
const maxEnergy = 2_000_000n;

/**
 * Simulates a payment and says what it may cost. Two round trips, after one that makes sure that what the payment was
 * to be before is over.
 * @param former of which nothing is stored
 * @param ceilingSun the most that the payment may cost
 * @throws FeeAboveCeiling, RpcUnavailable: both may pass
 */
export async function prepareTransfer(
  endpoints: TronEndpoints,
  {
    chain,
    ceilingSun,
    former,
    ...transfer
  }: Transfer & { chain: Chain; ceilingSun: bigint; former?: TransactionPayload },
): Promise<PrepareResult<TronPrepared>> {
  const { from, to, token, amountMinor } = transfer;
  const { asset } = token;
  const isNative = asset === 'native';
  const native = chain.tokens[0]!;
  const formerAbsentAtMs = former ? await formerAbsentAt(endpoints, former) : null;
  const view = await viewSolid(endpoints, [
    accountCall(from),
    tronCall('wallet', 'getchainparameters'),
    ...(isNative
      ? [accountCall(to)]
      : [balanceCall({ owner: from, asset }), transferCall({ owner: from, asset, to, amountMinor })]),
  ]);
  const atBlock = view.block.number;
  const nativeBalance = view.said(0, readAccount).balanceSun;
  const balance = isNative ? nativeBalance : tokenBalance(token, view.said(2, readSimulated));
  if (typeof balance !== 'bigint') return simulationFailed(token, balance.reason);
  if (balance < amountMinor) return tooLittle({ token, balance, amountMinor, atBlock });
  const recipient = isNative ? view.said(2, readAccount) : undefined;
  if (recipient?.isContract)
    return simulationFailed(token, 'the recipient is a contract, which takes no plain transfer');
  // What `transfer` returns tells nothing: Tether's contract on Tron returns false when all went well.
  const call = isNative ? undefined : view.said(3, readSimulated);
  if (call && !call.ok) return simulationFailed(token, call.reason);
  const energy = call?.energy ?? 0n;
  if (energy > maxEnergy) return simulationFailed(token, `it needs ${energy} energy, more than ${maxEnergy}`);

  const prices = view.said(1, readPrices);
  const place = { ...referenceTo(view.block), ...timesFrom(view.headMs) };
  const bytes = sizeOf({ transfer, chain: chain.id, place, feeLimitSun: ceilingSun });
  const bandwidthSun = bandwidthFee({ bytes, isNewAccount: recipient?.isActive === false, prices });
  const feeLimitSun = energyFeeLimit({
    ...{ chain: chain.id, energy, sunPerEnergy: prices.sunPerEnergy, restSun: bandwidthSun, ceilingSun },
  });
  const maxFeeMinor = feeLimitSun + bandwidthSun;
  const spentMinor = isNative ? amountMinor : 0n;
  if (nativeBalance < spentMinor + maxFeeMinor)
    return tooLittleForFee({ native, balance: nativeBalance, spentMinor, maxFeeMinor, atBlock });
  return {
    outcome: 'ready',
    ...place,
    feeLimitSun: feeLimitSun.toString(),
    bandwidthSun: bandwidthSun.toString(),
    formerAbsentAtMs,
    maxFeeMinor: maxFeeMinor.toString(),
    atBlock,
    balanceMinor: balance.toString(),
    nativeBalanceMinor: nativeBalance.toString(),
  };
}

type Place = Pick<TronPrepared, 'refBlockBytes' | 'refBlockHash' | 'timestampMs' | 'expirationMs'>;

/** A solidified block stays part of the chain. Bytes 6 and 7 of its number, 8 to 15 of its id. Source: Tron, TAPOS. */
function referenceTo({ hash }: TronBlock): Pick<Place, 'refBlockBytes' | 'refBlockHash'> {
  return { refBlockBytes: hash.slice(12, 16), refBlockHash: hash.slice(16, 32) };
}

/**
 * There are no nonces: two payments that are equal in everything would be one transaction. What the chain does not look
 * at, or not so closely, is drawn by chance, so that this happens once in 10^9 pairs of the same moment.
 */
function timesFrom(headMs: number): Pick<Place, 'timestampMs' | 'expirationMs'> {
  return { timestampMs: headMs - randomInt(lifeMs), expirationMs: headMs + lifeMs - randomInt(blockMs) };
}

/** With the largest fee limit that it may get. */
function sizeOf({
  transfer: { from, to, token, amountMinor },
  chain,
  place,
  feeLimitSun,
}: {
  transfer: Transfer;
  chain: string;
  place: Place;
  feeLimitSun: bigint;
}): number {
  const limit = token.asset === 'native' ? '0' : feeLimitSun.toString();
  const prepared = { ...place, feeLimitSun: limit, bandwidthSun: '0' } as TronPrepared;
  const intent = { chain, asset: token.asset, to, amount_minor: amountMinor.toString(), max_fee_minor: limit };
  return bandwidthBytes(buildTransfer({ intent, from, prepared }));
}
