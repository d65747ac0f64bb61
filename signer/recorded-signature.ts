import { bytesToHex, type Hex, hexToBytes, numberToHex, recoverPublicKey, slice } from 'viem';
import { walletAddress, walletName } from './address.ts';
import type { RecordStore } from './store/records.ts';

const SIGNATURE_BYTES = 65;
/** Half of the order of secp256k1: EIP-2 and BIP-146 allow only s at or below it. */
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

/**
 * A signature that is known here, as its signer told it: r | s (low) | recovery id. It was told by the coordinator or by
 * another signer, so it is looked at here: one that is not the wallet's is as good as none.
 */
export async function findRecorded(
  store: RecordStore,
  { address, digest, chain }: { address: string; digest: Hex; chain: string },
): Promise<Hex | undefined> {
  const signature = store.findSignature({ address, digest: hexToBytes(digest) });
  if (!signature) return undefined;
  const found = await judgeSignature({ signature: bytesToHex(signature), digest, address, chain });
  return 'fault' in found ? undefined : bytesToHex(signature);
}

/**
 * Whether what a signer tells is a signature of that wallet over that digest.
 * @param p.signature r | s | recovery id @param p.chain CAIP-2 id of the chain that the wallet pays on
 * @returns it as chains want it, r | s | v with v 27 or 28; or what is wrong with it, as the end of a sentence
 */
export async function judgeSignature(p: {
  signature: Hex;
  digest: Hex;
  address: string;
  chain: string;
}): Promise<{ signature: Hex } | { fault: string; cause?: unknown }> {
  const bytes = hexToBytes(p.signature);
  if (bytes.length !== SIGNATURE_BYTES) return { fault: `has ${bytes.length} bytes, expected ${SIGNATURE_BYTES}` };
  if (BigInt(slice(p.signature, 32, 64)) > HALF_ORDER) return { fault: 'has a high s' };
  const signature: Hex = `${slice(p.signature, 0, 64)}${numberToHex(27 + bytes[64]!).slice(2)}`;
  try {
    const publicKey = hexToBytes(await recoverPublicKey({ hash: p.digest, signature }));
    const recovered = walletAddress({ publicKey, chain: p.chain });
    if (walletName(recovered) === walletName(p.address)) return { signature };
    return { fault: `recovers to ${recovered}, expected ${p.address}` };
  } catch (cause) {
    return { fault: 'recovers to nothing', cause };
  }
}
