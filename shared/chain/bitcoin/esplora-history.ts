import { type AskEsplora, historyAnswer } from './esplora-answers.ts';
import type { BitcoinCoin } from './prepared.ts';

/** Pages of 25 transactions each; more would take longer than a payment waits. */
const maxPages = 12;

/**
 * The coins of an address that has more than a server lists, read from its newest transactions: a coin is spent, if at
 * all, by a newer one, so that what is found unspent on the way back is unspent. Older coins are not found.
 * @returns also those that are being spent by transactions that wait
 */
export async function coinsFromHistory(
  ask: AskEsplora,
  address: string,
): Promise<{ coins: BitcoinCoin[]; leaving: BitcoinCoin[] }> {
  const [spent, leaving] = [new Set<string>(), new Set<string>()];
  const found: BitcoinCoin[] = [];
  const waiting = (await ask(historyAnswer, { path: `/address/${address}/txs/mempool` })) ?? [];
  for (const { vin } of waiting) for (const { txid, vout } of vin) leaving.add(`${txid}:${vout}`);
  for (let [page, last] = [0, '']; page < maxPages; page += 1) {
    const path = `/address/${address}/txs/chain${last && `/${last}`}`;
    const transactions = (await ask(historyAnswer, { path })) ?? [];
    for (const { vin } of transactions) for (const { txid, vout } of vin) spent.add(`${txid}:${vout}`);
    for (const { txid, vout: outputs } of transactions)
      for (const [vout, { scriptpubkey_address, value }] of outputs.entries())
        if (scriptpubkey_address === address && !spent.has(`${txid}:${vout}`))
          found.push({ txid, vout, valueSat: String(value) });
    const oldest = transactions.at(-1);
    if (!oldest) break;
    last = oldest.txid;
  }
  // Within a block a coin may be spent by a transaction that is listed after the one that made it.
  const unspent = found.filter((coin) => !spent.has(nameOf(coin)));
  return {
    coins: unspent.filter((coin) => !leaving.has(nameOf(coin))),
    leaving: unspent.filter((coin) => leaving.has(nameOf(coin))),
  };
}

const nameOf = ({ txid, vout }: BitcoinCoin) => `${txid}:${vout}`;
