import { convertPoint, derivePublicKey } from '../derive-public-key.ts';
import { addressOfPublicKey } from './address.ts';

/** Address of a child of an account's key, in base58check. See {@link derivePublicKey}. */
export function deriveTronAddress(p: Parameters<typeof derivePublicKey>[0]): string {
  return addressOfPublicKey(convertPoint(derivePublicKey(p), 'uncompressed'));
}
