import { BtcdRefused, type BtcdRpc } from './btcd-rpc.ts';

/** Where a transaction stands, as Esplora writes it. */
interface Status {
  confirmed: boolean;
  block_height?: number;
  block_hash?: string;
  block_time?: number;
}

interface NodeOutput {
  /** BTC. */
  value: number;
  n: number;
  scriptPubKey: { hex: string; type: string; address?: string };
}

/** Size and weight are known of what is asked for alone. */
interface NodeTransaction {
  hex: string;
  txid: string;
  size: number;
  weight: number;
  version: number;
  locktime: number;
  vin: { coinbase?: string; txid?: string; vout?: number; sequence: number }[];
  vout: NodeOutput[];
  /** Absent while it waits in the mempool. */
  blockhash?: string;
  blocktime?: number;
}

export interface Stats {
  tx_count: number;
  funded_txo_count: number;
  funded_txo_sum: number;
  spent_txo_count: number;
  spent_txo_sum: number;
}

interface Coin {
  txid: string;
  vout: number;
  value: number;
  status: Status;
}

/** More than an address of a local network ever has. */
const HISTORY_MAX = 1_000_000;
/** As many as Esplora gives at a time: of what is mined, and of what waits. */
const PAGE = 25;
const WAITING_MAX = 50;
/** Code of "there is no such block, transaction or address". */
const NOT_FOUND = -5;

const satoshis = (btc: number): number => Math.round(btc * 1e8);

/** What Esplora's index knows, found by asking the node each time: slow, and right also after a reorganisation. */
export type EsploraIndex = ReturnType<typeof createEsploraIndex>;

/** @param rpc of a btcd with `--txindex --addrindex` */
export function createEsploraIndex(rpc: BtcdRpc) {
  /** Never changes, also of a block that is no part of the chain any more. */
  const heights = new Map<string, Promise<number>>();
  return { transaction, hex, outspend, addressStats, coins, waitingOf, minedOf };

  async function transaction(txid: string) {
    const found = await rawTransaction(txid);
    if (!found) return undefined;
    const vin = await Promise.all(
      found.vin.map(async (input) => ({
        txid: input.txid ?? '0'.repeat(64),
        vout: input.vout ?? 0xffff_ffff,
        is_coinbase: input.coinbase !== undefined,
        sequence: input.sequence,
        prevout: input.coinbase === undefined ? await previousOutput(input.txid!, input.vout!) : null,
      })),
    );
    const vout = found.vout.map(writeOutput);
    const isCoinbase = vin[0]?.is_coinbase === true;
    const sum = (values: (number | undefined)[]) => values.reduce<number>((all, value) => all + (value ?? 0), 0);
    const fee = isCoinbase ? 0 : sum(vin.map((each) => each.prevout?.value)) - sum(vout.map((each) => each.value));
    const { version, locktime, size, weight } = found;
    return { txid, version, locktime, vin, vout, size, weight, fee, status: await statusOf(found) };
  }

  async function hex(txid: string): Promise<string | undefined> {
    return (await rawTransaction(txid))?.hex;
  }

  /** The node has no index of spenders: of a mined one, the history of the coin's address is searched. */
  async function outspend({ txid, vout }: { txid: string; vout: number }) {
    const origin = await rawTransaction(txid);
    const output = origin?.vout[vout];
    if (!output) return undefined;
    const isSpender = (each: NodeTransaction) => each.vin.some((input) => input.txid === txid && input.vout === vout);
    const spender = (await history(output.scriptPubKey.address)).find(isSpender);
    if (!spender) return { spent: false };
    const vin = spender.vin.findIndex((input) => input.txid === txid && input.vout === vout);
    return { spent: true, txid: spender.txid, vin, status: await statusOf(spender) };
  }

  async function addressStats(address: string): Promise<{ chain_stats: Stats; mempool_stats: Stats }> {
    const all = await history(address);
    const outputs = outputsTo(all, address);
    const stats = (isMined: boolean): Stats => {
      const some = all.filter((each) => (each.blockhash !== undefined) === isMined);
      const funded = outputsTo(some, address);
      const spent = some.flatMap((each) =>
        each.vin.flatMap((input) => outputs.get(`${input.txid}:${input.vout}`) ?? []),
      );
      const sum = (values: NodeOutput[]) => values.reduce((total, output) => total + satoshis(output.value), 0);
      return {
        tx_count: some.length,
        funded_txo_count: funded.size,
        funded_txo_sum: sum([...funded.values()]),
        spent_txo_count: spent.length,
        spent_txo_sum: sum(spent),
      };
    };
    return { chain_stats: stats(true), mempool_stats: stats(false) };
  }

  /** What nobody has spent, in the mempool neither. */
  async function coins(address: string): Promise<Coin[]> {
    const all = await history(address);
    const spent = new Set(all.flatMap((each) => each.vin.map((input) => `${input.txid}:${input.vout}`)));
    const held = all.flatMap((from) =>
      [...outputsTo([from], address)].filter(([place]) => !spent.has(place)).map(([, output]) => ({ from, output })),
    );
    return Promise.all(
      held.map(async ({ from, output }) => ({
        txid: from.txid,
        vout: output.n,
        value: satoshis(output.value),
        status: await statusOf(from),
      })),
    );
  }

  /** What waits in the mempool and pays an address or spends from it. */
  async function waitingOf(address: string) {
    const waiting = (await history(address)).filter((each) => each.blockhash === undefined);
    return Promise.all(waiting.slice(0, WAITING_MAX).map(({ txid }) => transaction(txid)));
  }

  /** A page of what is mined, newest first. @param after the last one of the page before */
  async function minedOf(address: string, after?: string) {
    const mined = (await history(address)).filter((each) => each.blockhash !== undefined).toReversed();
    const start = after === undefined ? 0 : mined.findIndex((each) => each.txid === after) + 1;
    return Promise.all(mined.slice(start, start + PAGE).map(({ txid }) => transaction(txid)));
  }

  /** Everything that pays an address or spends from it, the mempool included. */
  async function history(address: string | undefined): Promise<NodeTransaction[]> {
    if (address === undefined) return [];
    const found = await orNothing(rpc<NodeTransaction[]>('searchrawtransactions', address, 1, 0, HISTORY_MAX));
    return found ?? [];
  }

  async function statusOf({ blockhash, blocktime }: NodeTransaction): Promise<Status> {
    if (blockhash === undefined) return { confirmed: false };
    const height = heights.get(blockhash) ?? heightOf(blockhash);
    heights.set(blockhash, height);
    height.catch(() => heights.delete(blockhash));
    return { confirmed: true, block_height: await height, block_hash: blockhash, block_time: blocktime! };
  }

  async function heightOf(blockhash: string): Promise<number> {
    return (await rpc<{ height: number }>('getblockheader', blockhash, true)).height;
  }

  async function previousOutput(txid: string, vout: number) {
    return writeOutput((await rawTransaction(txid))!.vout[vout]!);
  }

  function rawTransaction(txid: string): Promise<NodeTransaction | undefined> {
    return orNothing(rpc<NodeTransaction>('getrawtransaction', txid, 1));
  }
}

function outputsTo(all: readonly NodeTransaction[], address: string): Map<string, NodeOutput> {
  return new Map(
    all.flatMap(({ txid, vout }) =>
      vout
        .filter(({ scriptPubKey }) => scriptPubKey.address === address)
        .map((output): [string, NodeOutput] => [`${txid}:${output.n}`, output]),
    ),
  );
}

function writeOutput({ value, scriptPubKey: { hex, type, address } }: NodeOutput) {
  return { scriptpubkey: hex, scriptpubkey_type: type, scriptpubkey_address: address, value: satoshis(value) };
}

/** What the node does not have is no failure. */
async function orNothing<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof BtcdRefused && error.code === NOT_FOUND) return undefined;
    throw error;
  }
}
