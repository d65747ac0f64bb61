import { hex } from '@scure/base';
import { RawOldTx, RawTx } from '@scure/btc-signer/script.js';
import { sha256x2 } from '@scure/btc-signer/utils.js';
import { inBatches } from '../endpoints/in-batches.ts';
import { RpcUnavailable } from '../errors.ts';
import { ask, type BitcoinClient } from './client.ts';
import { scriptOf } from './parse-address.ts';
import type { BitcoinCoin } from './prepared.ts';

/** Each takes a request of its own; and coins that are remembered: they never change. */
const [transactionsAtOnce, maxRemembered] = [16, 10_000];

/**
 * Reads what coins hold from the transactions that made them, whose ids say that nothing of them was changed: a signature
 * over a coin with another value is void, and the signers hold every coin for ever to the value that they signed for.
 * @returns a check that asks once for each transaction. It throws RpcUnavailable where coins are not as servers said
 */
export function createCoinProof(client: BitcoinClient, { chain }: { chain: string }) {
  /** Scripts and values, by transaction and number. */
  const proven = new Map<string, string>();

  return async function prove({ owner, coins }: { owner: string; coins: readonly BitcoinCoin[] }): Promise<void> {
    const script = hex.encode(scriptOf(owner, chain));
    const named = coins.map((coin) => ({ ...coin, key: `${coin.txid}:${coin.vout}` }));
    const unproven = new Set(named.filter(({ key }) => !proven.has(key)).map(({ txid }) => txid));
    const made = await inBatches([...unproven], transactionsAtOnce, (txids) => Promise.all(txids.map(outputsOf)));
    for (const { key, valueSat } of named) {
      const held = proven.get(key) ?? made.find((outputs) => outputs.has(key))?.get(key);
      if (held !== `${script} ${valueSat}`) throw untrue({ key, valueSat, held });
      remember(key, held);
    }
  };

  async function outputsOf(txid: string): Promise<ReadonlyMap<string, string>> {
    const raw = await ask(client, (backend) => backend.raw(txid));
    const outputs = raw === null ? undefined : readOutputs(raw, txid);
    if (!outputs) throw new RpcUnavailable(`No server shows the transaction ${txid}, which made a coin of the wallet.`);
    return new Map(outputs.map((each, vout) => [`${txid}:${vout}`, each]));
  }

  function remember(key: string, held: string): void {
    proven.set(key, held);
    if (proven.size > maxRemembered) proven.delete(proven.keys().next().value!);
  }
}

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
