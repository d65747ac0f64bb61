import type { Address } from 'viem';
import { publicKeyToAddress } from 'viem/accounts';
import { convertPoint, derivePublicKey } from '../derive-public-key.ts';

/** Address of a child of an account's key, with its EIP-55 checksum. See {@link derivePublicKey}. */
export function deriveEvmAddress(p: Parameters<typeof derivePublicKey>[0]): Address {
  const child = convertPoint(derivePublicKey(p), 'uncompressed');
  return publicKeyToAddress(`0x${Buffer.from(child).toString('hex')}`);
}
