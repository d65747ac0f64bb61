import { CompactSign, type CryptoKey, compactVerify, decodeProtectedHeader } from 'jose';
import { z } from 'zod';
import { walletAddressPattern, walletName } from './address.ts';
import { Refusal } from './refusal.ts';

const TYPE = 'purser-limits+jws';
/** Assets in the limits of one wallet. */
const ASSETS_MAX = 50;
/** Longest document. */
export const LIMITS_DOCUMENT_MAX = 16_000;
/** Stands for every wallet of the key that has no limits of its own. */
export const ALL_WALLETS = '*';

/** `eip155:8453/0x…`, `tron:0x2b6653dc/T…`; on Bitcoin there is nothing but bitcoin. */
const assetPattern =
  /^(eip155:[1-9][0-9]{0,15}\/(native|0x[0-9a-f]{40})|tron:0x[0-9a-f]{8}\/(native|T[1-9A-HJ-NP-Za-km-z]{33})|bip122:[0-9a-f]{32}\/native)$/;
const isWalletName = (text: string) => walletAddressPattern.test(text) && walletName(text) === text;

const minor = z.string().regex(/^(0|[1-9][0-9]{0,77})$/, 'must be a decimal string of minor units');
const assetLimit = z.strictObject({
  /** `<chain>/native` or `<chain>/<contract>`, of EVM chains in lower case. */
  asset: z.string().regex(assetPattern, 'must be CHAIN/native or CHAIN/CONTRACT'),
  /** Of one payment, in minor units; null: any. */
  payment_minor: minor.nullable(),
  /** Of any 24 hours, in minor units; null: any. */
  day_minor: minor.nullable(),
});
const claimsSchema = z.strictObject({
  key_id: z.string().min(1).max(128),
  wallet: z.union([
    z.literal(ALL_WALLETS),
    z.string().refine(isWalletName, 'must be the address of a wallet, 0x… in lower case'),
  ]),
  /** Counts up; a signer takes none that is not above the one that it has. */
  version: z.int().positive(),
  /** What may be paid; nothing else. Null: off. */
  limits: z
    .array(assetLimit)
    .max(ASSETS_MAX)
    .refine((list) => new Set(list.map(({ asset }) => asset)).size === list.length, 'lists an asset twice')
    .nullable(),
});

/** Limits of one asset. */
export type AssetLimit = z.infer<typeof assetLimit>;
/** What the account's owner says about one wallet, or about all that have no limits of their own. */
export type LimitsClaims = z.infer<typeof claimsSchema>;

/** A compact JWS, EdDSA, type `purser-limits+jws`. @throws Error of one sentence when the limits are none */
export async function signLimits(ownerKey: CryptoKey, claims: LimitsClaims): Promise<string> {
  const parsed = claimsSchema.safeParse(claims);
  if (!parsed.success) throw new Error(`the limits are not valid: ${firstIssue(parsed.error)}`);
  return new CompactSign(Buffer.from(JSON.stringify(parsed.data)))
    .setProtectedHeader({ alg: 'EdDSA', typ: TYPE })
    .sign(ownerKey);
}

/** @throws Refusal `malformed`, or `forbidden` when it is not signed by that key */
export async function verifyLimits(ownerKey: CryptoKey, document: string): Promise<LimitsClaims> {
  await compactVerify(document, ownerKey, { algorithms: ['EdDSA'] }).catch((cause) => {
    throw new Refusal('forbidden', 'the limits are not signed by the owner’s key of this account key', { cause });
  });
  if (decodeProtectedHeader(document).typ !== TYPE) throw new Refusal('malformed', 'the document holds no limits');
  return readLimits(document);
}

/** What a document says, without asking who signed it: of one that was verified before it was stored. */
export function readLimits(document: string): LimitsClaims {
  const parsed = claimsSchema.safeParse(parsePayload(document));
  if (parsed.success) return parsed.data;
  throw new Refusal('malformed', `the limits are not valid: ${firstIssue(parsed.error)}`);
}

/** The JSON inside a compact JWS. @throws Refusal `malformed` */
export function parsePayload(document: string): unknown {
  try {
    return JSON.parse(Buffer.from(document.split('.')[1] ?? '', 'base64url').toString('utf8'));
  } catch (cause) {
    throw new Refusal('malformed', 'the document is not a compact JWS of JSON', { cause });
  }
}

const firstIssue = (error: z.ZodError) => `${error.issues[0]!.path.join('.') || 'limits'} ${error.issues[0]!.message}`;
