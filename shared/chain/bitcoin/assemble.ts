import { secp256k1 } from '@noble/curves/secp256k1.js';
import { hex } from '@scure/base';
import { p2wpkh, SigHash, type Transaction } from '@scure/btc-signer';
import { formatAmount } from '../../domain/money.ts';
import type { BitcoinTransaction } from '../../domain/receipt.ts';
import type { Signed } from '../family.ts';
import { networkOf } from './network.ts';
import { feeOf } from './replace-transfer.ts';
import { spendingScript, unsignedTransaction } from './unsigned.ts';

/** Of a fee rate as it is shown. */
const rateDecimals = 3;

/**
 * Joins a transaction and the signatures of its inputs to the bytes that are sent. Pure.
 * @param p.signatures r | s | v, 65 bytes, v 27 or 28 (or 0 or 1); one for each input, in order
 * @param p.from address of the wallet whose coins they are
 * @returns bytes and transaction id in hex as nodes and explorers write them
 * @throws Error for a signature that is none of the wallet over this transaction
 * @see BIP-143 (what is signed), BIP-141 and BIP-144 (the bytes), BIP-146 (low s)
 */
export function assemble({
  transaction,
  signatures,
  from,
}: {
  transaction: BitcoinTransaction;
  signatures: readonly string[];
  from: string;
}): Required<Signed> {
  const { inputs, chain } = transaction;
  if (signatures.length !== inputs.length)
    throw new Error(`${inputs.length} inputs need as many signatures, and there are ${signatures.length}.`);
  const joined = unsignedTransaction(transaction);
  const script = spendingScript({ from, chain });
  for (const [index, { valueSat }] of inputs.entries()) {
    const digest = joined.preimageWitnessV0(index, script, SigHash.ALL, BigInt(valueSat));
    const witness = witnessOf({ signature: signatures[index]!, digest });
    if (p2wpkh(witness[1], networkOf(chain)).address !== from)
      throw new Error(`The signature of input ${index} is none of ${from} over this transaction.`);
    joined.updateInput(index, { finalScriptWitness: witness }, true);
  }
  return {
    raw: hex.encode(joined.toBytes(true, true)),
    hash: joined.id,
    offer: {
      max_fee_per_gas: null,
      max_priority_fee_per_gas: null,
      fee_rate: feeRate({ transaction, joined }),
      expires_at: null,
    },
  };
}

/** What an input of P2WPKH is spent by: signature with its kind, and compressed key. */
function witnessOf({ signature, digest }: { signature: string; digest: Uint8Array }): [Uint8Array, Uint8Array] {
  const bytes = hex.decode(signature.replace(/^0x/, ''));
  if (bytes.length !== 65) throw new Error(`A signature has 65 bytes (r, s and v), and this one has ${bytes.length}.`);
  const parity = bytes[64]! % 27;
  const signed = secp256k1.Signature.fromBytes(bytes.subarray(0, 64)).addRecoveryBit(parity);
  const publicKey = signed.recoverPublicKey(digest).toBytes(true);
  const { r, s } = signed;
  const low = signed.hasHighS() ? new secp256k1.Signature(r, secp256k1.Point.Fn.ORDER - s) : signed;
  return [Uint8Array.from([...low.toBytes('der'), SigHash.ALL]), publicKey];
}

/** Satoshis for a virtual byte, as it is; what is beyond three decimals is left out. */
function feeRate({ transaction, joined }: { transaction: BitcoinTransaction; joined: Transaction }): string {
  const thousandths = (feeOf(transaction) * 10n ** BigInt(rateDecimals)) / BigInt(joined.vsize);
  return formatAmount(thousandths, rateDecimals);
}
