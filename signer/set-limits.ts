import { z } from 'zod';
import type { SignerContext } from './context.ts';
import { parseVerificationKey } from './identity.ts';
import { ALL_WALLETS, LIMITS_DOCUMENT_MAX, type LimitsClaims, readLimits, verifyLimits } from './limits-document.ts';
import { requireActiveKey } from './owner-key.ts';
import { Refusal } from './refusal.ts';
import type { StoredLimits } from './store/limits.ts';

export const setLimitsSchema = z.strictObject({ document: z.string().max(LIMITS_DOCUMENT_MAX) });
export const listLimitsSchema = z.strictObject({ keyId: z.string().min(1).max(128) });

/**
 * Takes limits that the account's owner signed; who brings them does not matter. Repeating it changes nothing.
 * @throws Refusal `unknown_key`, `malformed`, `forbidden` (another signed them, or nobody can), `limits_outdated`
 */
export async function setLimits(
  context: SignerContext,
  { body: { document } }: { body: z.infer<typeof setLimitsSchema> },
): Promise<{ version: number }> {
  const { key_id: keyId } = readLimits(document);
  requireActiveKey(context, keyId);
  return { version: await takeLimits(context, { keyId, document }) };
}

/**
 * Verifies limits of a key, and keeps them when they are newer than what is known.
 * @returns the version that counts now
 */
export async function takeLimits(
  context: SignerContext,
  { keyId, document }: { keyId: string; document: string },
): Promise<number> {
  const ownerKey = context.store.ownerKeyOf(keyId);
  if (!ownerKey) throw new Refusal('forbidden', `key ${keyId} has no owner’s key at signer ${context.party}`);
  const claims = await verifyLimits(await parseVerificationKey(ownerKey), document);
  const { key_id, wallet, version } = claims;
  if (key_id !== keyId) throw new Refusal('malformed', `the limits are of key ${key_id}, not of ${keyId}`);
  const known = context.store.getLimits({ keyId, wallet });
  if (known?.document === document) return version;
  if (known && version <= known.version) {
    const whose = wallet === ALL_WALLETS ? `all wallets of key ${keyId}` : `wallet ${wallet}`;
    throw new Refusal(
      'limits_outdated',
      `version ${version} is not above ${known.version}, the limits of ${whose} now`,
    );
  }
  context.store.putLimits({ keyId, wallet, version, document });
  context.backup.changed(keyId);
  context.log.warn({ keyId, wallet, version }, 'the account’s owner set limits');
  return version;
}

/** The documents of a key, as they were signed. */
export async function listLimits(
  context: SignerContext,
  { body: { keyId } }: { body: z.infer<typeof listLimitsSchema> },
): Promise<{ ownerKey: string | null; ownerKeyVersion: number; limits: StoredLimits[] }> {
  requireActiveKey(context, keyId);
  return {
    ownerKey: context.store.ownerKeyOf(keyId) ?? null,
    ownerKeyVersion: context.store.ownerKeyChanges(keyId).at(-1)?.version ?? 0,
    limits: context.store.listLimits(keyId),
  };
}

/** What counts for a wallet: its own limits, else those of all wallets. Undefined: off. */
export function limitsInForce(
  context: SignerContext,
  { keyId, wallet }: { keyId: string; wallet: string },
): (LimitsClaims & { limits: object }) | undefined {
  const stored = context.store.getLimits({ keyId, wallet }) ?? context.store.getLimits({ keyId, wallet: ALL_WALLETS });
  const claims = stored && readLimits(stored.document);
  return claims?.limits ? { ...claims, limits: claims.limits } : undefined;
}
