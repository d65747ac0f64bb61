import { FeeAboveCeiling } from '../errors.ts';
import type { TronPrices } from './answers.ts';
import { protocol } from './protocol.ts';
import { type EncodedTransaction, rawDataOf } from './raw-data.ts';

/** Bytes that every contract of a transaction counts for its result. Source: java-tron, `Constant.MAX_RESULT_SIZE_IN_TX`. */
const resultBytes = 64;
const signatureBytes = 65;
/** Added to the energy of a simulated call, in percent: the state, and the price of a busy contract, may have changed. */
const energyMarginPercent = 25n;

/** What a transaction counts for bandwidth, signed. Source: java-tron, `BandwidthProcessor.consume`. */
export function bandwidthBytes(transaction: EncodedTransaction): number {
  const message = new protocol.Transaction();
  message.setRawData(rawDataOf(transaction));
  message.addSignature(new Uint8Array(signatureBytes));
  return message.serializeBinary().length + resultBytes;
}

/**
 * The most that a transaction may burn besides energy, in sun. Bandwidth that is staked or free is not counted, though
 * the chain uses it first: every payment of the wallet that is under way would count the same. A transfer that makes the
 * recipient's account costs a fee of its own. Source: java-tron, `BandwidthProcessor.consume`, `TransferActuator`.
 */
export function bandwidthFee({
  bytes,
  isNewAccount,
  prices,
}: {
  bytes: number;
  isNewAccount: boolean;
  prices: TronPrices;
}): bigint {
  return isNewAccount ? prices.newAccountSun : BigInt(bytes) * prices.sunPerByte;
}

/**
 * The most that a call may burn for energy: what it took when it was simulated and some more, but not so much that the
 * payment costs more than the ceiling. Energy that the wallet has staked is not counted: it may be gone by then.
 * @param p.restSun what the payment costs besides
 * @throws FeeAboveCeiling when not even what it took is below the ceiling
 */
export function energyFeeLimit({
  chain,
  energy,
  sunPerEnergy,
  restSun,
  ceilingSun,
}: {
  chain: string;
  energy: bigint;
  sunPerEnergy: bigint;
  restSun: bigint;
  ceilingSun: bigint;
}): bigint {
  const leastSun = energy * sunPerEnergy;
  if (leastSun + restSun > ceilingSun)
    throw new FeeAboveCeiling({
      chain,
      needed: leastSun + restSun,
      ceiling: ceilingSun,
      unit: 'sun',
      what: 'this payment',
    });
  const roomySun = leastSun + (leastSun * energyMarginPercent + 99n) / 100n;
  return roomySun + restSun < ceilingSun ? roomySun : ceilingSun - restSun;
}
