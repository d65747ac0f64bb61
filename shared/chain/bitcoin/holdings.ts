import { hearAll, mostNamed, reachedByMost } from '../endpoints/agreement.ts';
import type { Holdings } from './backend.ts';
import type { BitcoinClient } from './client.ts';
import type { BitcoinCoin } from './prepared.ts';

/** What a wallet holds, as more than half of the servers that answered show it. */
export interface AgreedHoldings {
  readonly atBlock: number;
  /** As in {@link Holdings}. */
  readonly confirmedSat: bigint;
  readonly freeSat: bigint;
  readonly coins: readonly BitcoinCoin[];
}

/**
 * What an address holds as of the newest block that more than half of the servers that answered have reached. Those
 * behind it are asked last from then on. A coin counts if more than half know it, by the same value: whoever lags, or
 * lies, neither gives a wallet coins nor has it sign for a wrong value.
 * @throws RpcUnavailable
 */
export async function agreedHoldings(client: BitcoinClient, { owner }: { owner: string }): Promise<AgreedHoldings> {
  const heard = (await hearAll(client, [(backend) => backend.holdings(owner)])).map(({ endpoint, answers }) => ({
    endpoint,
    holdings: answers[0] as Holdings,
  }));
  const atBlock = reachedByMost(heard.map(({ holdings }) => holdings.block.number));
  const current = heard.filter(({ holdings }) => holdings.block.number >= atBlock);
  client.noteAgreeing(new Set(current.map(({ endpoint }) => endpoint)));
  const told = current.map(({ holdings }) => holdings);
  const { confirmedSat, freeSat } = mostNamed(told, (each) => `${each.confirmedSat} ${each.freeSat}`)!.vote;
  return { atBlock, confirmedSat, freeSat, coins: agreedCoins(told) };
}

/** The largest first. */
function agreedCoins(told: readonly Holdings[]): BitcoinCoin[] {
  const counts = new Map<string, { coin: BitcoinCoin; count: number }>();
  for (const coin of told.flatMap(({ coins }) => coins)) {
    const key = `${coin.txid}:${coin.vout}=${coin.valueSat}`;
    counts.set(key, { coin, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()]
    .filter(({ count }) => count > told.length / 2)
    .map(({ coin }) => coin)
    .toSorted((a, b) => Number(BigInt(b.valueSat) - BigInt(a.valueSat)));
}
