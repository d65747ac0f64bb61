import { setTimeout as delay } from 'node:timers/promises';
import { hex } from '@scure/base';
import { RawOldTx, RawTx } from '@scure/btc-signer/script.js';
import { sha256x2 } from '@scure/btc-signer/utils.js';
import { inBatches } from '../endpoints/in-batches.ts';
import { RpcUnavailable } from '../errors.ts';
import { ask, type BitcoinClient } from './client.ts';
import { scriptOf } from './parse-address.ts';
import type { BitcoinCoin } from './prepared.ts';

/** Each takes a request of its own; and outputs that are remembered: they never change. */
const [transactionsAtOnce, maxRemembered] = [16, 10_000];
/** What is not shown by then is left out this time: whoever prepares a payment has ten seconds for everything. */
const longestMs = 4_000;

/** What is certain of a wallet's coins. */
export interface ProvenCoins {
  readonly coins: readonly BitcoinCoin[];
  /** Why others are missing; undefined where none is. */
  readonly doubt: RpcUnavailable | undefined;
}

/**
 * Reads what coins hold from the transactions that made them, whose ids say that nothing of them was changed: a signature
 * over a coin with another value is void, and the signers hold every coin for ever to the value that they signed for.
 * @returns a check that asks once for each transaction, those of the largest coins first. Whoever sends a wallet many small
 *   coins out of large transactions must not stop its payments: coins that cannot be proven are as if they were not there
 */
export function createCoinProof(client: BitcoinClient, { chain }: { chain: string }) {
  /** Scripts and values, by transaction and number. */
  const proven = new Map<string, string>();

  return async function prove(wallet: { owner: string; coins: readonly BitcoinCoin[] }): Promise<ProvenCoins> {
    const script = hex.encode(scriptOf(wallet.owner, chain));
    const named = wallet.coins.map((coin) => ({ coin, key: `${coin.txid}:${coin.vout}` }));
    const unproven = named.filter(({ key }) => !proven.has(key)).map(({ coin }) => coin);
    const refusals = await readWithin(unproven.toSorted(bySize).map(({ txid }) => txid));
    const coins: BitcoinCoin[] = [];
    let doubt: RpcUnavailable | undefined;
    for (const { coin, key } of named) {
      const held = proven.get(key);
      if (held === `${script} ${coin.valueSat}`) coins.push(coin);
      else doubt ??= refusals.get(coin.txid) ?? untrue({ key, valueSat: coin.valueSat, held });
    }
    return { coins, doubt };
  };

  /** @returns why transactions are not read, by id */
  async function readWithin(txids: readonly string[]): Promise<ReadonlyMap<string, RpcUnavailable>> {
    const refusals = new Map(txids.map((txid) => [txid, notShown(txid)]));
    const end = new AbortController();
    const read = async (txid: string) => {
      try {
        await readOutputsOf(txid);
        refusals.delete(txid);
      } catch (error) {
        if (!(error instanceof RpcUnavailable)) throw error;
        refusals.set(txid, error);
      }
    };
    const reading = inBatches([...refusals.keys()], transactionsAtOnce, async (batch) =>
      end.signal.aborted ? [] : Promise.all(batch.map(read)),
    );
    const late = delay(longestMs, undefined, { signal: end.signal }).catch(() => {});
    await Promise.race([reading, late]).finally(() => end.abort());
    return refusals;
  }

  async function readOutputsOf(txid: string): Promise<void> {
    const raw = await ask(client, (backend) => backend.raw(txid));
    const outputs = raw === null ? undefined : readOutputs(raw, txid);
    if (!outputs) throw notShown(txid);
    for (const [vout, held] of outputs.entries()) remember(`${txid}:${vout}`, held);
  }

  function remember(key: string, held: string): void {
    proven.set(key, held);
    if (proven.size > maxRemembered) proven.delete(proven.keys().next().value!);
  }
}

const bySize = (one: BitcoinCoin, other: BitcoinCoin) => Number(BigInt(other.valueSat) - BigInt(one.valueSat));

const notShown = (txid: string) =>
  new RpcUnavailable(`No server shows the transaction ${txid}, which made a coin of the wallet.`);

/** @returns undefined for bytes of another transaction */
function readOutputs(raw: string, txid: string): string[] | undefined {
  try {
    const transaction = RawTx.decode(hex.decode(raw));
    if (hex.encode(sha256x2(RawOldTx.encode(transaction)).reverse()) !== txid) return undefined;
    return transaction.outputs.map(({ script, amount }) => `${hex.encode(script)} ${amount}`);
  } catch {
    return undefined;
  }
}

function untrue({ key, valueSat, held }: { key: string; valueSat: string; held: string | undefined }): RpcUnavailable {
  const [script, truth] = held?.split(' ') ?? [];
  const said = `Servers say that coin ${key} of the wallet holds ${valueSat} sat`;
  if (script === undefined) return new RpcUnavailable(`${said}; its transaction has no such output.`);
  return new RpcUnavailable(
    truth === valueSat ? `${said}; it is none of the wallet.` : `${said}; its transaction says ${truth} sat.`,
  );
}
