import type { BitcoinCoin, BitcoinRates } from './prepared.ts';
import { dustLimit, feeAt, inputVirtualSize, virtualSize, virtualSizes } from './size.ts';

/** Coins in one transaction at most: each has a signature of its own, and nodes pass on 100 kvB. */
export const maxInputs = 50;
/** So much more than now the change should be able to pay, should the payment have to offer more later. */
const roomFactor = 5n;
/** No more coins than these are added for that. */
const roomInputs = 2;

/** A payment of BTC, before it has coins. */
export interface Payment {
  /** CAIP-2 id. */
  readonly chain: string;
  /** Address of the wallet; what is left comes back to it. */
  readonly from: string;
  readonly to: string;
  readonly amountSat: bigint;
}

export interface Selection {
  readonly coins: readonly BitcoinCoin[];
  /** What the coins have more than payee and change get. */
  readonly feeSat: bigint;
  /** Zero: no change; what is left is too little for an output, and goes to the miner. */
  readonly changeSat: bigint;
}

/**
 * Chooses coins for a payment: as few as can be, of these the ones that leave least over, but rather such that the change
 * could pay a higher fee later. Coins that cost more than they bring are left alone. Pure: the same input gives the same
 * coins.
 * @returns undefined when the coins do not suffice, or too many would be needed
 */
export function chooseCoins({
  payment,
  coins,
  rates,
}: {
  payment: Payment;
  coins: readonly BitcoinCoin[];
  rates: BitcoinRates;
}): Selection | undefined {
  const satPerKvb = BigInt(rates.satPerKvb);
  const settled = settling(payment, satPerKvb);
  const settledDearly = settling(payment, roomyRate(rates));
  const hasRoom = (chosen: readonly BitcoinCoin[]) => (settledDearly(chosen)?.changeSat ?? 0n) > 0n;
  const usable = worthSpending(coins, satPerKvb);
  const plain = fewest(usable, (chosen) => settled(chosen) !== undefined);
  if (!plain) return undefined;
  const roomy = fewest(usable, hasRoom);
  return settled(roomy && roomy.length <= plain.length + roomInputs ? roomy : plain);
}

/** Satoshis that all coins together could pay at most, and the fee of that; as many of them as one transaction takes. */
export function mostPayable({
  payment,
  coins,
  rates,
}: {
  payment: Omit<Payment, 'amountSat'>;
  coins: readonly BitcoinCoin[];
  rates: Pick<BitcoinRates, 'satPerKvb'>;
}): { amountSat: bigint; feeSat: bigint } {
  const satPerKvb = BigInt(rates.satPerKvb);
  const usable = worthSpending(coins, satPerKvb).slice(0, maxInputs);
  const { chain, to } = payment;
  const feeSat = feeAt(satPerKvb, virtualSize({ inputs: Math.max(usable.length, 1), outputs: [to], chain }));
  const restSat = sumOf(usable) - feeSat;
  return { amountSat: restSat > 0n ? restSat : 0n, feeSat };
}

/** What coins leave after payee and fee: change, or nothing where that would be too little for an output. */
function settling({ chain, from, to, amountSat }: Payment, satPerKvb: bigint) {
  const sizeWithChange = virtualSizes({ outputs: [to, from], chain });
  const sizeWithout = virtualSizes({ outputs: [to], chain });
  const dustSat = dustLimit(from, chain);
  return (coins: readonly BitcoinCoin[]): Selection | undefined => {
    const restSat = sumOf(coins) - amountSat;
    const feeSat = feeAt(satPerKvb, sizeWithChange(coins.length));
    if (restSat - feeSat >= dustSat) return { coins, feeSat, changeSat: restSat - feeSat };
    const leastSat = feeAt(satPerKvb, sizeWithout(coins.length));
    return restSat >= leastSat ? { coins, feeSat: restSat, changeSat: 0n } : undefined;
  };
}

/** The largest ones until they suffice, and in place of the last of these the smallest that still does. */
function fewest(
  coins: readonly BitcoinCoin[],
  suffice: (chosen: readonly BitcoinCoin[]) => boolean,
): readonly BitcoinCoin[] | undefined {
  for (let count = 1; count <= Math.min(coins.length, maxInputs); count++) {
    if (!suffice(coins.slice(0, count))) continue;
    const kept = coins.slice(0, count - 1);
    const last = coins.slice(count - 1).findLast((coin) => suffice([...kept, coin]));
    return [...kept, last!];
  }
  return undefined;
}

/** Each once, largest first; equal ones in an order that does not depend on who told of them. */
function worthSpending(coins: readonly BitcoinCoin[], satPerKvb: bigint): BitcoinCoin[] {
  const costSat = feeAt(satPerKvb, inputVirtualSize);
  const unique = new Map(coins.map((coin) => [`${coin.txid}:${coin.vout}`, coin]));
  return [...unique]
    .filter(([, coin]) => BigInt(coin.valueSat) > costSat)
    .toSorted(([a, one], [b, other]) => Number(BigInt(other.valueSat) - BigInt(one.valueSat)) || (a < b ? -1 : 1))
    .map(([, coin]) => coin);
}

function roomyRate({ satPerKvb, ceilingSatPerKvb }: BitcoinRates): bigint {
  const [wanted, ceiling] = [BigInt(satPerKvb) * roomFactor, BigInt(ceilingSatPerKvb)];
  return wanted < ceiling ? wanted : ceiling;
}

const sumOf = (coins: readonly BitcoinCoin[]) => coins.reduce((sum, { valueSat }) => sum + BigInt(valueSat), 0n);
