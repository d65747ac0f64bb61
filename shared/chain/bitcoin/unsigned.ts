import { hex } from '@scure/base';
import { Address, OutScript, Transaction } from '@scure/btc-signer';
import type { BitcoinTransaction } from '../../domain/receipt.ts';
import { networkOf } from './network.ts';
import { scriptOf } from './parse-address.ts';

/** Every input says that its transaction may be replaced. Source: BIP-125. */
const replaceableSequence = 0xfffffffd;

/** A transaction as the library knows it, without signatures. Pure. */
export function unsignedTransaction({ chain, inputs, outputs, lockTime }: BitcoinTransaction): Transaction {
  const transaction = new Transaction({ version: 2, lockTime });
  for (const { txid, vout } of inputs) transaction.addInput({ txid, index: vout, sequence: replaceableSequence });
  for (const { address, valueSat } of outputs)
    transaction.addOutput({ script: scriptOf(address, chain), amount: BigInt(valueSat) });
  return transaction;
}

/** The script that the coins of a wallet are spent by: that of P2PKH with the wallet's hash. Source: BIP-143, "scriptCode". */
export function spendingScript({ from, chain }: { from: string; chain: string }): Uint8Array {
  const decoded = Address(networkOf(chain)).decode(from);
  if (decoded.type !== 'wpkh') throw new TypeError(`${from} is not an address of a wallet: it would be P2WPKH.`);
  return OutScript.encode({ type: 'pkh', hash: decoded.hash });
}

/** Reads signed bytes. */
export function readRaw(raw: string): Transaction {
  return Transaction.fromRaw(hex.decode(raw), { allowUnknownOutputs: true });
}
