import { CompactSign, type CryptoKey, compactVerify, errors } from 'jose';
import { z } from 'zod';
import type { FreezeState } from './domain/freeze.ts';

const TYPE = 'purser-freeze+jws';
/** Frozen accounts and agents together that an order names: it has to fit into one request to a signer. */
export const FREEZE_SUBJECTS_MAX = 10_000;
/** Longest order, in characters. */
export const FREEZE_ORDER_MAX = 900_000;
/** Longest id in an order, in characters: {@link FREEZE_SUBJECTS_MAX} of them fit. */
const ID_LENGTH_MAX = 64;

const ids = z.array(z.string().min(1).max(ID_LENGTH_MAX)).max(FREEZE_SUBJECTS_MAX);
const claims = z.strictObject({
  version: z.int().nonnegative(),
  installation: z.boolean(),
  accounts: ids,
  agents: ids,
  /** When it was signed, Unix seconds; nothing depends on it. */
  iat: z.int().nonnegative(),
}) satisfies z.ZodType<FreezeState>;

/** Why an order about freezes does not count. */
export class FreezeOrderError extends Error {
  override readonly name = 'FreezeOrderError';
}

/**
 * What an order can say of everything that is frozen: of more than {@link FREEZE_SUBJECTS_MAX}, accounts before agents.
 * @returns how many were left out: for those the database alone keeps anything new from being allowed
 */
export function fitFreezes(state: FreezeState): { state: FreezeState; leftOut: number } {
  const accounts = state.accounts.slice(0, FREEZE_SUBJECTS_MAX);
  const agents = state.agents.slice(0, FREEZE_SUBJECTS_MAX - accounts.length);
  const leftOut = state.accounts.length - accounts.length + state.agents.length - agents.length;
  return { state: { ...state, accounts, agents }, leftOut };
}

/**
 * Signs the word about everything that is frozen: a compact JWS, EdDSA, type `purser-freeze+jws`.
 * @param key the policy step's private Ed25519 key @throws ZodError where it names more than an order can
 */
export async function signFreezeOrder(
  key: CryptoKey,
  { state, now }: { state: FreezeState; now: Date },
): Promise<string> {
  const { version, installation, accounts, agents } = state;
  const order = claims.parse({ version, installation, accounts, agents, iat: Math.floor(now.getTime() / 1000) });
  return new CompactSign(Buffer.from(JSON.stringify(order))).setProtectedHeader({ alg: 'EdDSA', typ: TYPE }).sign(key);
}

/**
 * Checks signature, type and shape of an order. Whether it is the newest is for the caller to compare.
 * @param key the policy step's public Ed25519 key
 * @throws FreezeOrderError
 */
export async function verifyFreezeOrder(key: CryptoKey, order: string): Promise<FreezeState> {
  try {
    const { payload, protectedHeader } = await compactVerify(order, key, { algorithms: ['EdDSA'] });
    if (protectedHeader.typ !== TYPE) throw new FreezeOrderError('the document is no order about freezes');
    return read(Buffer.from(payload));
  } catch (cause) {
    if (cause instanceof FreezeOrderError) throw cause;
    const why = cause instanceof errors.JOSEError ? cause.code : 'not a compact JWS';
    throw new FreezeOrderError(`the order about freezes is not signed by the policy key (${why})`, { cause });
  }
}

/** What an order says, without asking who signed it: of one that was verified before it was stored. */
export function readFreezeOrder(order: string): FreezeState {
  return read(Buffer.from(order.split('.')[1] ?? '', 'base64url'));
}

function read(payload: Buffer): FreezeState {
  let value: unknown;
  try {
    value = JSON.parse(payload.toString('utf8'));
  } catch (cause) {
    throw new FreezeOrderError('the order about freezes is not JSON', { cause });
  }
  const parsed = claims.safeParse(value);
  if (parsed.success) return parsed.data;
  const at = parsed.error.issues[0]?.path.join('.') || 'its shape';
  throw new FreezeOrderError(`the order about freezes is not valid at ${at}`);
}
