import type { z } from 'zod';
import type { Block } from '../adapter.ts';
import type { HttpCall } from '../endpoints/http.ts';
import { HttpFailure } from '../endpoints/http-failure.ts';
import { type BitcoinBackend, type Holdings, maxCoins } from './backend.ts';
import {
  type AskEsplora,
  addressAnswer,
  blockAnswer,
  coinsAnswer,
  estimatesAnswer,
  hashAnswer,
  hashesAnswer,
  placeOf,
  rawAnswer,
  readTransaction,
  spenderAnswer,
  transactionAnswer,
} from './esplora-answers.ts';
import { coinsFromHistory } from './esplora-history.ts';
import type { BitcoinCoin } from './prepared.ts';

/** Blocks that are remembered by their hashes: as many as a payment's depth and a reorganisation are looked at. */
const maxBlocks = 128;
/** Readings of a wallet until one falls between two blocks. */
const maxReadings = 3;

/**
 * A server of Esplora's HTTP API: blockstream.info/api, mempool.space/api, or an electrs of one's own.
 * Source: https://github.com/Blockstream/esplora/blob/master/API.md
 * @param send asks once, and gives `null` for what is not there
 */
export function createEsploraBackend(send: (call: HttpCall) => Promise<unknown>): BitcoinBackend {
  /** Blocks never change; what is at a height does. */
  const blocks = new Map<string, Block>();

  const ask: AskEsplora = async (schema, call) => {
    const answer = await send(call);
    if (answer === null) return null;
    const read = schema.safeParse(answer);
    if (!read.success) throw new HttpFailure({ text: `The answer to ${pathOf(call)} is none of the Esplora API.` });
    return read.data;
  };
  /** For what every server has. */
  const demand: <S extends z.ZodType>(schema: S, call: HttpCall) => Promise<z.output<S>> = async (schema, call) => {
    const answer = await ask(schema, call);
    if (answer === null)
      throw new HttpFailure({ text: `There is no ${pathOf(call)}: this is no server of the Esplora API.` });
    return answer;
  };
  const tip = () => demand(hashAnswer, { path: '/blocks/tip/hash' });

  return {
    genesis: () => demand(hashAnswer, { path: '/block-height/0' }),
    async newestBlock() {
      return (await block(await tip())) ?? missing('its newest block');
    },
    async blockAt(number) {
      const hash = await ask(hashAnswer, { path: `/block-height/${number}` });
      return hash === null ? null : block(hash);
    },
    async transaction(hash) {
      const found = await ask(transactionAnswer, { path: `/tx/${hash}` });
      return found && readTransaction(found);
    },
    raw: (hash) => ask(rawAnswer, { path: `/tx/${hash}/hex` }),
    async spender({ txid, vout }) {
      const found = await ask(spenderAnswer, { path: `/tx/${txid}/outspend/${vout}` });
      if (!found?.spent || !found.txid) return null;
      return { hash: found.txid, place: found.status ? placeOf(found.status) : undefined };
    },
    holdings,
    async feeRate({ withinBlocks }) {
      const estimates = await demand(estimatesAnswer, { path: '/fee-estimates' });
      const rate = closestEstimate(estimates, withinBlocks);
      return rate === undefined ? null : BigInt(Math.ceil(rate * 1_000));
    },
    broadcast: (raw) => demand(hashAnswer, { path: '/tx', body: raw }),
  };

  async function block(hash: string): Promise<Block | null> {
    const known = blocks.get(hash);
    if (known) return known;
    const [head, transactionHashes] = await Promise.all([
      ask(blockAnswer, { path: `/block/${hash}` }),
      ask(hashesAnswer, { path: `/block/${hash}/txids` }),
    ]);
    if (!head || !transactionHashes) return null;
    const read = { number: head.height, hash, parentHash: head.previousblockhash ?? '', transactionHashes };
    blocks.set(hash, read);
    if (blocks.size > maxBlocks) blocks.delete(blocks.keys().next().value!);
    return read;
  }

  /**
   * The API does not say as of which block it answers: what was read while the newest one changed is read again. Should it
   * change each time, the wallet counts as of the older one: what it has spent since is then counted twice, never not at all.
   */
  async function holdings(address: string): Promise<Holdings> {
    for (let reading = 1; ; reading += 1) {
      const before = await tip();
      const [{ chain_stats: mined }, { coins, leaving }] = await Promise.all([
        demand(addressAnswer, { path: `/address/${address}` }),
        coinsOf(address),
      ]);
      if ((await tip()) !== before && reading < maxReadings) continue;
      const asOf = (await block(before)) ?? missing('its newest block');
      const confirmedSat = BigInt(mined.funded_txo_sum) - BigInt(mined.spent_txo_sum);
      return {
        block: { number: asOf.number, hash: asOf.hash },
        confirmedSat,
        // Coins that are too old to be found are not under way: nobody is to wait for them.
        freeSat: leaving === undefined ? sumOf(coins) : confirmedSat - sumOf(leaving),
        coins: largest(coins),
      };
    }
  }

  async function coinsOf(address: string): Promise<{ coins: BitcoinCoin[]; leaving?: BitcoinCoin[] }> {
    try {
      const found = await demand(coinsAnswer, { path: `/address/${address}/utxo` });
      const confirmed = found.filter(({ status }) => status.confirmed);
      return { coins: confirmed.map(({ txid, vout, value }) => ({ txid, vout, valueSat: String(value) })) };
    } catch (error) {
      // Public servers list 500 coins at most, and whoever likes can give a wallet more.
      if (error instanceof HttpFailure && /too many unspent/i.test(error.text)) return coinsFromHistory(ask, address);
      throw error;
    }
  }
}

const sumOf = (coins: readonly BitcoinCoin[]) => coins.reduce((sum, { valueSat }) => sum + BigInt(valueSat), 0n);

function largest(coins: readonly BitcoinCoin[]): BitcoinCoin[] {
  return coins.toSorted((a, b) => Number(BigInt(b.valueSat) - BigInt(a.valueSat))).slice(0, maxCoins);
}

/** For the most blocks that are not more than wanted; for the fewest, where all are more. */
function closestEstimate(estimates: Readonly<Record<string, number>>, withinBlocks: number): number | undefined {
  const targets = Object.keys(estimates)
    .map(Number)
    .toSorted((a, b) => a - b);
  const target = targets.findLast((each) => each <= withinBlocks) ?? targets[0];
  return target === undefined ? undefined : estimates[String(target)];
}

function missing(what: string): never {
  throw new HttpFailure({ text: `The server does not have ${what}.` });
}

/** Without what tells of wallets. */
function pathOf({ path }: HttpCall): string {
  return path.replaceAll(/\/[0-9a-zA-Z]{20,}/g, '/…');
}
