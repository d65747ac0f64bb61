import { secp256k1 } from '@noble/curves/secp256k1.js';
import { p2wpkh, TEST_NETWORK, Transaction } from '@scure/btc-signer';
import { hexToBytes, keccak256, stringToHex } from 'viem';
import type { BtcdRpc } from './btcd-rpc.ts';
import { createEsploraIndex } from './esplora-index.ts';

const REGTEST = { ...TEST_NETWORK, bech32: 'bcrt' };
/** Blocks after which the coins of a block's maker may be spent, and a few coins to begin with. */
const MATURITY = 100;
const FIRST_COINS = 10;
/** More than the virtual bytes of an input and of any output. */
const INPUT_VBYTES = 69;
const OUTPUT_VBYTES = 44;
const FEE_PER_VBYTE = 2n;

// The key of a throw-away network, made from words, so that a node that starts again pays the same one.
const privateKey = hexToBytes(keccak256(stringToHex('purser regtest network: miner')));
const own = p2wpkh(secp256k1.getPublicKey(privateKey), REGTEST);

/** Who is paid for the blocks of the local network. */
export const minerAddress: string = own.address!;

interface Coin {
  txid: string;
  vout: number;
  valueSat: bigint;
}

/** What the miner of a local network owns, for wallets that need coins. */
export interface Treasury {
  /** Hands the node a transaction that pays all of these, and does not wait for its block. @returns its id */
  pay(outputs: readonly { address: string; valueSat: bigint }[]): Promise<string>;
}

/** Makes the first blocks of a new network, so that the miner has coins that may be spent. */
export async function fillTreasury(node: { rpc: BtcdRpc; mine(blocks: number): Promise<unknown> }): Promise<void> {
  const height = await node.rpc<number>('getblockcount');
  if (height < MATURITY + FIRST_COINS) await node.mine(MATURITY + FIRST_COINS - height);
}

/** @param rpc of a node that pays {@link minerAddress} for its blocks; asked anew each time, for it may start again */
export function createTreasury(rpc: BtcdRpc): Treasury {
  /** In the order in which they are spent; empty until they are looked for. */
  let coins: Coin[] = [];
  let queue: Promise<unknown> = Promise.resolve();
  return {
    pay(outputs) {
      const paid = queue.then(async () => {
        try {
          return await payNow(outputs);
        } catch {
          // A reorganisation or a lost mempool has changed what there is.
          coins = [];
          return payNow(outputs);
        }
      });
      queue = paid.catch(() => {});
      return paid;
    },
  };

  async function payNow(outputs: readonly { address: string; valueSat: bigint }[]): Promise<string> {
    const totalSat = outputs.reduce((sum, output) => sum + output.valueSat, 0n);
    if (coins.length === 0) coins = await matureCoins();
    const inputs: Coin[] = [];
    const feeSat = () =>
      FEE_PER_VBYTE * BigInt(20 + INPUT_VBYTES * inputs.length + OUTPUT_VBYTES * (outputs.length + 1));
    const changeSat = () => inputs.reduce((sum, coin) => sum + coin.valueSat, 0n) - totalSat - feeSat();
    while (changeSat() < 1_000n) {
      const coin = coins.shift();
      if (!coin) throw new Error('The miner of the local Bitcoin network has no coins left.');
      inputs.push(coin);
    }
    const transaction = new Transaction();
    for (const { txid, vout, valueSat } of inputs)
      transaction.addInput({ txid, index: vout, witnessUtxo: { script: own.script, amount: valueSat } });
    for (const { address, valueSat } of outputs) transaction.addOutputAddress(address, valueSat, REGTEST);
    transaction.addOutputAddress(minerAddress, changeSat(), REGTEST);
    const change = { vout: outputs.length, valueSat: changeSat() };
    transaction.sign(privateKey);
    transaction.finalize();
    const txid = await rpc<string>('sendrawtransaction', transaction.hex);
    coins.push({ txid, ...change });
    return txid;
  }

  async function matureCoins(): Promise<Coin[]> {
    const height = await rpc<number>('getblockcount');
    const found = await createEsploraIndex(rpc).coins(minerAddress);
    return found
      .filter(({ status }) => status.confirmed && height - status.block_height! + 1 > MATURITY)
      .map(({ txid, vout, value }) => ({ txid, vout, valueSat: BigInt(value) }))
      .toSorted((a, b) => Number(b.valueSat - a.valueSat));
  }
}
