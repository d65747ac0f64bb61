import type { BitcoinOutput, BitcoinTransaction, TransactionPayload } from '../../domain/receipt.ts';
import type { ReplaceResult } from '../family.ts';
import type { BitcoinReplacementTerms } from './prepared.ts';
import { dustLimit, feeAt, virtualSize } from './size.ts';

/** Nodes want each virtual byte of a replacement paid anew, besides what was offered before. Source: BIP-125 rule 4, Bitcoin Core's incremental relay fee. */
const incrementalSatPerKvb = 1000n;
/**
 * A replacement offers a tenth more for a virtual byte: more by so much that it is more also if the signatures before
 * were a byte or two shorter than counted.
 */
const raisedPercent = 110n;

type Rates = Pick<BitcoinReplacementTerms, 'satPerKvb' | 'ceilingSatPerKvb' | 'floorSatPerKvb'>;

/**
 * What is to be signed in place of a transaction, for the same coins in the same order, so that one of both at most is
 * mined: the same payment with a higher fee out of its change, or everything back to the wallet. Pure.
 * @param p.isSigned whether anything was signed for these coins before: then nodes take only what offers more
 * @param p.from address of the wallet
 * @see BIP-125
 */
export function replaceTransfer({
  before,
  isSigned,
  purpose,
  from,
  terms,
}: {
  before: BitcoinTransaction;
  isSigned: boolean;
  purpose: 'payment' | 'noop';
  from: string;
  terms: Rates;
}): ReplaceResult {
  const payee = purpose === 'payment' ? before.outputs.slice(0, 1) : [];
  const rates = ratesFor({ before, isSigned, purpose, terms });
  const refuse = (why: string): ReplaceResult => ({
    refusal: `Its transaction pays ${feeOf(before)} sat for ${sizeOf(before)} virtual bytes; ${why}.`,
  });
  if (rates.leastSatPerKvb > rates.ceilingSatPerKvb)
    return refuse(
      `a replacement would have to pay ${rates.leastSatPerKvb} sat for a thousand of them, and the ceiling is ${terms.ceilingSatPerKvb} sat`,
    );
  const built = refund({ before, isSigned, payee, from, satPerKvb: rates.satPerKvb });
  if ('missingSat' in built)
    return refuse(
      purpose === 'payment'
        ? `its change has ${built.missingSat} sat too little for a replacement`
        : `its coins have ${built.missingSat} sat too little for a replacement`,
    );
  const mostSat = (rates.ceilingSatPerKvb * sizeOf(built)) / 1000n;
  if (feeOf(built) > mostSat)
    return refuse(`a replacement would have to pay ${feeOf(built)} sat, and the ceiling allows ${mostSat} sat`);
  return { payload: { kind: 'bitcoin-transaction', transaction: built } satisfies TransactionPayload };
}

/** What the inputs have more than the outputs, in satoshis. */
export function feeOf({ inputs, outputs }: Pick<BitcoinTransaction, 'inputs' | 'outputs'>): bigint {
  return sumOf(inputs) - sumOf(outputs);
}

/**
 * As much as a new payment would pay now, more than before, and no more than the ceiling. A payment that nodes would
 * refuse again is not signed again; what pays nobody is, for it can be sent once they ask for less.
 */
function ratesFor({
  before,
  isSigned,
  purpose,
  terms,
}: {
  before: BitcoinTransaction;
  isSigned: boolean;
  purpose: 'payment' | 'noop';
  terms: Rates;
}) {
  const [ceilingSatPerKvb, floorSatPerKvb] = [BigInt(terms.ceilingSatPerKvb), BigInt(terms.floorSatPerKvb ?? 0)];
  const marketSatPerKvb = larger(BigInt(terms.satPerKvb), floorSatPerKvb);
  const raisedSatPerKvb = (feeOf(before) * 10n * raisedPercent) / sizeOf(before) + 1n;
  const signedSatPerKvb = purpose === 'payment' ? larger(raisedSatPerKvb, floorSatPerKvb) : raisedSatPerKvb;
  const leastSatPerKvb = isSigned ? signedSatPerKvb : marketSatPerKvb;
  const wantedSatPerKvb = larger(marketSatPerKvb, leastSatPerKvb);
  return {
    leastSatPerKvb,
    satPerKvb: wantedSatPerKvb < ceilingSatPerKvb ? wantedSatPerKvb : ceilingSatPerKvb,
    ceilingSatPerKvb,
  };
}

/** The same coins, the payee, and the rest back to the wallet, where it is more than dust or all there is. */
function refund({
  before,
  isSigned,
  payee,
  from,
  satPerKvb,
}: {
  before: BitcoinTransaction;
  isSigned: boolean;
  payee: BitcoinOutput[];
  from: string;
  satPerKvb: bigint;
}): BitcoinTransaction | { missingSat: bigint } {
  const { chain } = before;
  const leastFeeOf = (outputs: BitcoinOutput[]): bigint => {
    const vsize = sizeOf({ ...before, outputs });
    const byRateSat = feeAt(satPerKvb, vsize);
    const byRelaySat = isSigned ? feeOf(before) + feeAt(incrementalSatPerKvb, vsize) : 0n;
    return larger(byRateSat, byRelaySat);
  };
  const restSat = sumOf(before.inputs) - sumOf(payee);
  const refunded = (valueSat: bigint) => [...payee, { address: from, valueSat: valueSat.toString() }];
  const changeSat = restSat - leastFeeOf(refunded(0n));
  const dustSat = dustLimit(from, chain);
  if (changeSat >= dustSat) return { ...before, outputs: refunded(changeSat) };
  if (payee.length === 0) return { missingSat: dustSat - changeSat };
  const missingSat = leastFeeOf(payee) - restSat;
  return missingSat > 0n ? { missingSat } : { ...before, outputs: payee };
}

const sizeOf = ({ chain, inputs, outputs }: Pick<BitcoinTransaction, 'chain' | 'inputs' | 'outputs'>) =>
  virtualSize({ inputs: inputs.length, outputs: outputs.map(({ address }) => address), chain });

const larger = (a: bigint, b: bigint) => (a > b ? a : b);

const sumOf = (parts: readonly { valueSat: string }[]) =>
  parts.reduce((sum, { valueSat }) => sum + BigInt(valueSat), 0n);
