import { type Hex, isAddress } from 'viem';
import { z } from 'zod';
import { hashAuthorization } from '../../shared/chain/evm/transfer-authorization.ts';
import type { TransferAuthorization } from '../../shared/domain/receipt.ts';
import { Refusal } from '../refusal.ts';

const address = z.custom<Hex>((v) => typeof v === 'string' && isAddress(v), 'must be an address');
const bytes32 = z.custom<Hex>(
  (v) => typeof v === 'string' && /^0x[0-9a-f]{64}$/.test(v),
  'must be 32 lower-case hex bytes',
);
const seconds = z.int().nonnegative();

/** The only shape of a transfer by authorisation that a signer reads. */
export const authorizationSchema = z.strictObject({
  domain: z.strictObject({
    name: z.string().min(1).max(128),
    version: z.string().min(1).max(32),
    chainId: z.int().positive(),
    verifyingContract: address,
  }),
  from: address,
  to: address,
  value: z
    .string()
    .regex(/^(0|[1-9][0-9]{0,77})$/, 'must be a decimal string without sign or leading zeros')
    .refine((s) => BigInt(s) < 2n ** 256n, 'is too large'),
  validAfter: seconds,
  validBefore: seconds,
  nonce: bytes32,
}) satisfies z.ZodType<TransferAuthorization>;

/** The digest that is signed for it. @throws Refusal `malformed` when its members make no authorisation */
export function digestOfAuthorization(authorization: TransferAuthorization): Hex {
  try {
    return hashAuthorization(authorization);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.split('\n')[0] : 'unknown';
    throw new Refusal('malformed', `authorisation cannot be hashed: ${why}`, { cause });
  }
}
