import { Address, OutScript, RawTx } from '@scure/btc-signer';
import type { BtcdRpc } from '../../dev/btcd-rpc.ts';

/** Base58 and bech32 prefixes of regtest. Source: Bitcoin Core, `chainparams.cpp`. */
export const regtestNetwork = { bech32: 'bcrt', pubKeyHash: 0x6f, scriptHash: 0xc4, wif: 0xef };

/** An output of a transaction, spent or not. */
export interface LedgerCoin {
  readonly txid: string;
  readonly vout: number;
  /** Locking script in hex. */
  readonly script: string;
  readonly valueSat: bigint;
}

/** A transaction in a block, with what it spends. */
export interface LedgerTransaction {
  readonly txid: string;
  readonly height: number;
  readonly inputs: readonly LedgerCoin[];
  readonly outputs: readonly LedgerCoin[];
  readonly feeSat: bigint;
}

/** What a chain of blocks has moved, by our own count: nothing here trusts an index of anybody. */
export interface BitcoinLedger {
  /** Reads on to this height. @throws Error when a block that was read before is no part of the chain any more */
  readUpTo(height: number): Promise<void>;
  /** Transactions that spend coins of this address, in the order of the chain. */
  sentBy(address: string): readonly LedgerTransaction[];
  /** What of it pays this address, from whomever, in satoshis. */
  received(address: string): bigint;
  /** Coins of the address that nobody has spent. */
  coinsOf(address: string): readonly LedgerCoin[];
}

interface NodeBlock {
  readonly hash: string;
  readonly previousblockhash?: string;
  readonly rawtx: readonly { readonly txid: string; readonly hex: string }[];
}

/** The script that pays an address of regtest, in hex. */
export function scriptOf(address: string): string {
  return hexOf(OutScript.encode(Address(regtestNetwork).decode(address)));
}

/** Reads the blocks of a regtest node one by one, from the first on. */
export function createBitcoinLedger(rpc: BtcdRpc): BitcoinLedger {
  const transactions: LedgerTransaction[] = [];
  const unspent = new Map<string, LedgerCoin>();
  let [nextHeight, lastHash]: [number, string | undefined] = [1, undefined];
  let reading: Promise<void> = Promise.resolve();

  async function read(height: number): Promise<void> {
    for (; nextHeight <= height; nextHeight += 1) {
      const hash = await rpc<string>('getblockhash', nextHeight);
      const block = await rpc<NodeBlock>('getblock', hash, 2);
      if (lastHash !== undefined && block.previousblockhash !== lastHash)
        throw new Error(`Block ${nextHeight} does not follow ${lastHash}, which was read before.`);
      for (const [index, { txid, hex }] of block.rawtx.entries()) enter({ txid, hex, isCoinbase: index === 0 });
      lastHash = hash;
    }
  }

  function enter({ txid, hex, isCoinbase }: { txid: string; hex: string; isCoinbase: boolean }): void {
    const raw = RawTx.decode(Buffer.from(hex, 'hex'));
    const inputs = isCoinbase ? [] : raw.inputs.map((input) => take(`${hexOf(input.txid)}:${input.index}`));
    const outputs = raw.outputs.map(({ amount, script }, vout) => ({
      ...{ txid, vout, script: hexOf(script), valueSat: amount },
    }));
    for (const coin of outputs) unspent.set(`${txid}:${coin.vout}`, coin);
    const feeSat = isCoinbase ? 0n : sumOf(inputs) - sumOf(outputs);
    transactions.push({ txid, height: nextHeight, inputs, outputs, feeSat });
  }

  function take(outpoint: string): LedgerCoin {
    const coin = unspent.get(outpoint);
    if (!coin) throw new Error(`Block ${nextHeight} spends ${outpoint}, which is not there.`);
    unspent.delete(outpoint);
    return coin;
  }

  return {
    readUpTo(height) {
      reading = reading.catch(() => {}).then(() => read(height));
      return reading;
    },
    sentBy(address) {
      const script = scriptOf(address);
      return transactions.filter(({ inputs }) => inputs.some((coin) => coin.script === script));
    },
    received(address) {
      const script = scriptOf(address);
      return sumOf(transactions.flatMap(({ outputs }) => outputs.filter((coin) => coin.script === script)));
    },
    coinsOf(address) {
      const script = scriptOf(address);
      return [...unspent.values()].filter((coin) => coin.script === script);
    },
  };
}

export const sumOf = (coins: readonly LedgerCoin[]): bigint => coins.reduce((sum, { valueSat }) => sum + valueSat, 0n);

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
