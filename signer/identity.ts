import { readFileSync } from 'node:fs';
import type { CryptoKey } from 'jose';
import { z } from 'zod';
import { developmentMark } from '../shared/domain/development-mark.ts';

/** A public identity of a signer as one printable string: `<Ed25519>.<X25519>`, each 32 bytes in base64url. */
export type PublicIdentity = string;

const key32 = z.string().regex(/^[A-Za-z0-9_-]{43}$/, 'must be 32 bytes in base64url (43 characters)');
const okp = <C extends 'Ed25519' | 'X25519'>(crv: C) =>
  z.strictObject({ kty: z.literal('OKP'), crv: z.literal(crv), x: key32, d: key32 });
/** A key made for trying out says so. */
const mark = { [developmentMark]: z.boolean().optional() };
const ed25519File = okp('Ed25519').extend(mark);
const signerFile = z.strictObject({ signing: okp('Ed25519'), encryption: okp('X25519'), ...mark });

type Curve = 'Ed25519' | 'X25519';
interface PrivateJwk {
  kty: 'OKP';
  crv: Curve;
  x: string;
  d: string;
}

const algorithms = { Ed25519: { name: 'Ed25519' }, X25519: { name: 'X25519' } } as const;

async function importPrivate(jwk: PrivateJwk): Promise<CryptoKey> {
  return crypto.subtle.importKey(
    'jwk',
    jwk,
    algorithms[jwk.crv],
    false,
    jwk.crv === 'Ed25519' ? ['sign'] : ['deriveBits'],
  );
}

async function importPublic(crv: Curve, x: string): Promise<CryptoKey> {
  return crypto.subtle.importKey(
    'jwk',
    { kty: 'OKP', crv, x },
    algorithms[crv],
    true,
    crv === 'Ed25519' ? ['verify'] : [],
  );
}

/** The coordinator's identity: it signs requests, and holds nothing else. */
export interface CoordinatorIdentity {
  signingKey: CryptoKey;
  /** Ed25519 public key, 32 bytes in base64url. */
  publicKey: string;
}

/** A signer's own identity: signs what it sends, decrypts what it gets. */
export interface SignerIdentity {
  signingKey: CryptoKey;
  decryptionKey: CryptoKey;
  publicKey: PublicIdentity;
}

/** The public half of another signer, ready for use. */
export interface PeerIdentity {
  verificationKey: CryptoKey;
  encryptionKey: CryptoKey;
}

function readJson<T>(file: string, schema: z.ZodType<T>): T {
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    // The parser's own message may quote the file, and the file is a secret.
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'not JSON';
    throw new Error(`identity file ${file} cannot be read (${code}); make one with signer/init.ts`);
  }
  const result = schema.safeParse(parsed);
  if (!result.success) {
    const at = result.error.issues[0]?.path.join('.') || 'its shape';
    throw new Error(`identity file ${file} is not valid at ${at}; make one with signer/init.ts`);
  }
  return result.data;
}

/** Reads an identity made by `signer/init.ts --kind coordinator`. */
export async function loadCoordinatorIdentity(file: string): Promise<CoordinatorIdentity> {
  const jwk = readJson(file, ed25519File);
  return { signingKey: await importPrivate(jwk), publicKey: jwk.x };
}

/** Reads an identity made by `signer/init.ts --kind signer`. */
export async function loadSignerIdentity(file: string): Promise<SignerIdentity> {
  const { signing, encryption } = readJson(file, signerFile);
  return {
    signingKey: await importPrivate(signing),
    decryptionKey: await importPrivate(encryption),
    publicKey: `${signing.x}.${encryption.x}`,
  };
}

/** Parses `<Ed25519>.<X25519>`. */
export async function parsePublicIdentity(text: PublicIdentity): Promise<PeerIdentity> {
  const [signing, encryption, ...rest] = text.split('.');
  if (!key32.safeParse(signing).success || !key32.safeParse(encryption).success || rest.length > 0) {
    throw new Error(
      'a signer identity is <ed25519>.<x25519>, each 43 characters of base64url, as printed by signer/init.ts',
    );
  }
  return {
    verificationKey: await importPublic('Ed25519', signing!),
    encryptionKey: await importPublic('X25519', encryption!),
  };
}

/** Imports an Ed25519 public key: 32 bytes in base64url. */
export async function parseVerificationKey(text: string): Promise<CryptoKey> {
  if (!key32.safeParse(text).success) throw new Error('an Ed25519 public key is 43 characters of base64url');
  return importPublic('Ed25519', text);
}
