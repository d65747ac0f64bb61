import { secp256k1 } from '@noble/curves/secp256k1.js';
import type { TronTransaction } from '../../domain/receipt.ts';
import { addressOfPublicKey } from './address.ts';
import { encodeSigned, transactionId } from './raw-data.ts';

/**
 * Joins a transaction and its signature to the bytes that are sent. Pure.
 * @param signature r | s | v, 65 bytes in hex, v 27 or 28 (or 0 or 1)
 * @returns the whole message `Transaction` in hex, and the transaction's id; both without `0x`
 * @throws Error when the signature is not that of the wallet, or of something else
 */
export function assemble({ transaction, signature }: { transaction: TronTransaction; signature: `0x${string}` }): {
  raw: string;
  hash: string;
} {
  const hash = transactionId(transaction);
  const rsv = new Uint8Array(Buffer.from(signature.slice(2), 'hex'));
  const signer = recoverSigner({ hash, signature: rsv });
  if (signer !== transaction.from)
    throw new Error(`The signature of ${hash} is that of ${signer ?? 'nobody'}, not of ${transaction.from}.`);
  return { raw: Buffer.from(encodeSigned(transaction, rsv)).toString('hex'), hash };
}

/** Who signed a transaction; undefined when nobody can have. @param p.hash its id @param p.signature r | s | v */
function recoverSigner({ hash, signature }: { hash: string; signature: Uint8Array }): string | undefined {
  if (signature.length !== 65) return undefined;
  try {
    const v = signature[64]!;
    // Of the library: the recovery bit comes first.
    const recovered = Uint8Array.of(v < 27 ? v : v - 27, ...signature.subarray(0, 64));
    const point = secp256k1.recoverPublicKey(recovered, Buffer.from(hash, 'hex'), { prehash: false });
    return addressOfPublicKey(secp256k1.Point.fromBytes(point).toBytes(false));
  } catch {
    return undefined;
  }
}
