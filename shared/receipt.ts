import { type CryptoKey, errors, importJWK, jwtVerify, SignJWT } from 'jose';
import { z } from 'zod';
import { developmentMark } from './domain/development-mark.ts';
import type { PolicyReceipt } from './domain/receipt.ts';
import { replacedSlotsMax } from './domain/slot.ts';

const RECEIPT_TYPE = 'purser-receipt+jwt';
/** Clocks of the policy step and of the signers may differ by this much. */
const CLOCK_TOLERANCE_SECONDS = 30;
const SLOT_LENGTH_MAX = 200;

/** Why a receipt does not count. */
export class ReceiptError extends Error {
  override readonly name = 'ReceiptError';
  readonly reason: 'receipt_expired' | 'receipt_invalid';
  constructor(reason: 'receipt_expired' | 'receipt_invalid', message: string, cause?: unknown) {
    super(message, { cause });
    this.reason = reason;
  }
}

const id = z.string().min(1).max(128);
const address = z.string().max(90);

/**
 * What addresses, and contracts of tokens, look like, by the namespace of the chain: shapes only, because each signer
 * checks the rest by itself. On Bitcoin: Bech32 of all its chains, and Base58Check.
 */
const shapes: Readonly<Record<string, { address: RegExp; contract: RegExp }>> = {
  eip155: { address: /^0x[0-9a-fA-F]{40}$/, contract: /^0x[0-9a-fA-F]{40}$/ },
  bip122: { address: /^((bc|tb|bcrt)1[02-9ac-hj-np-z]{11,83}|[1-9A-HJ-NP-Za-km-z]{26,35})$/, contract: /^native$/ },
  tron: { address: /^T[1-9A-HJ-NP-Za-km-z]{33}$/, contract: /^T[1-9A-HJ-NP-Za-km-z]{33}$/ },
};
const shapesOf = (chain: string) => {
  const namespace = chain.split(':', 1)[0]!;
  return Object.hasOwn(shapes, namespace) ? shapes[namespace] : undefined;
};

const minor = z.string().regex(/^(0|[1-9][0-9]{0,77})$/, 'must be a decimal string of minor units');
const claims = z
  .strictObject({
    account_id: id,
    agent_id: id,
    wallet: z.strictObject({ key_id: id, path: id, address }),
    transaction_id: id,
    decision_id: id,
    replaces: z.array(z.string().min(1).max(SLOT_LENGTH_MAX)).min(1).max(replacedSlotsMax).optional(),
    intent: z.strictObject({
      chain: id,
      asset: address,
      to: address,
      amount_minor: minor,
      max_fee_minor: minor,
      authorization: z
        .strictObject({
          valid_after: z.int().nonnegative(),
          valid_before: z.int().nonnegative(),
          nonce: z.templateLiteral(['0x', z.string()]).refine((s) => /^0x[0-9a-f]{64}$/.test(s), 'must be 32 bytes'),
        })
        .optional(),
    }),
    iat: z.int().nonnegative(),
    exp: z.int().nonnegative(),
  })
  .refine(({ intent: { chain } }) => shapesOf(chain), {
    message: 'is of no family that is known',
    path: ['intent', 'chain'],
  })
  .refine(({ intent: { chain, to } }) => shapesOf(chain)?.address.test(to), {
    message: 'is no address of the chain',
    path: ['intent', 'to'],
  })
  .refine(({ intent: { chain, asset } }) => asset === 'native' || shapesOf(chain)?.contract.test(asset), {
    message: 'is no asset of the chain',
    path: ['intent', 'asset'],
  })
  .refine(({ intent: { chain }, wallet }) => shapesOf(chain)?.address.test(wallet.address), {
    message: 'is no address of the chain',
    path: ['wallet', 'address'],
  }) satisfies z.ZodType<PolicyReceipt>;

/**
 * Signs a policy receipt: a compact JWS, EdDSA, type `purser-receipt+jwt`.
 * @param key the policy step's private Ed25519 key, see {@link importReceiptKey}
 */
export async function signReceipt(key: CryptoKey, receipt: PolicyReceipt): Promise<string> {
  return new SignJWT({ ...claims.parse(receipt) }).setProtectedHeader({ alg: 'EdDSA', typ: RECEIPT_TYPE }).sign(key);
}

/**
 * Checks signature, type, shape and time of a receipt. What it allows is for the caller to compare.
 * @param key the policy step's public Ed25519 key
 * @throws ReceiptError
 */
export async function verifyReceipt(
  key: CryptoKey,
  { receipt, now }: { receipt: string; now: Date },
): Promise<PolicyReceipt> {
  let payload: unknown;
  try {
    const verified = await jwtVerify(receipt, key, {
      algorithms: ['EdDSA'],
      typ: RECEIPT_TYPE,
      requiredClaims: ['iat', 'exp'],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      currentDate: now,
    });
    payload = verified.payload;
  } catch (error) {
    if (error instanceof errors.JWTExpired) {
      throw new ReceiptError(
        'receipt_expired',
        'the policy receipt has expired; a fresh policy decision is needed',
        error,
      );
    }
    const why = error instanceof errors.JOSEError ? error.code : 'not a compact JWS';
    throw new ReceiptError('receipt_invalid', `the policy receipt does not verify (${why})`, error);
  }
  const parsed = claims.safeParse(payload);
  if (!parsed.success) {
    const at = parsed.error.issues[0]?.path.join('.') || 'its shape';
    throw new ReceiptError('receipt_invalid', `the policy receipt is not valid at ${at}`);
  }
  if (parsed.data.iat > now.getTime() / 1000 + CLOCK_TOLERANCE_SECONDS) {
    throw new ReceiptError('receipt_invalid', 'the policy receipt is from the future; compare the clocks');
  }
  return parsed.data;
}

const receiptJwk = z.strictObject({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string().length(43),
  d: z.string().length(43),
  [developmentMark]: z.boolean().optional(),
});

/**
 * Imports the policy step's private key.
 * @param json a private JWK, as `signer/init.ts --kind policy` writes it
 * @throws Error without any part of the key in it
 */
export async function importReceiptKey(json: string): Promise<CryptoKey> {
  try {
    const { kty, crv, x, d } = receiptJwk.parse(JSON.parse(json));
    return (await importJWK({ kty, crv, x, d }, 'EdDSA')) as CryptoKey;
  } catch {
    throw new Error('the policy receipt key must be an Ed25519 private JWK, as signer/init.ts --kind policy writes it');
  }
}
