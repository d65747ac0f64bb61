import { CompactSign, type CryptoKey, compactVerify, decodeProtectedHeader } from 'jose';
import { z } from 'zod';
import type { SignerContext } from './context.ts';
import { parseVerificationKey } from './identity.ts';
import { parsePayload } from './limits-document.ts';
import { Refusal } from './refusal.ts';

const TYPE = 'purser-owner-key+jws';

const keyId = z.string().min(1).max(128);
/** Ed25519, 32 bytes in base64url. */
export const ownerKeySchema = z.string().regex(/^[A-Za-z0-9_-]{43}$/, 'must be 43 characters of base64url');
const changeSchema = z.strictObject({
  key_id: keyId,
  /** Counts up. */
  version: z.int().positive(),
  /** Whose word counts from now on. */
  owner_key: ownerKeySchema,
});
type OwnerKeyChange = z.infer<typeof changeSchema>;

export const registerOwnerKeySchema = z.strictObject({ keyId, ownerKey: ownerKeySchema });
export const replaceOwnerKeySchema = z.strictObject({ document: z.string().max(2000) });

/** "From now on this other key speaks for me", signed by the key that does now: a compact JWS, EdDSA. */
export async function signOwnerKeyChange(current: CryptoKey, change: OwnerKeyChange): Promise<string> {
  return new CompactSign(Buffer.from(JSON.stringify(changeSchema.parse(change))))
    .setProtectedHeader({ alg: 'EdDSA', typ: TYPE })
    .sign(current);
}

/**
 * Gives a key that has nobody who sets its limits its owner's key. For the operator, once: whoever owns the worker must
 * not name himself.
 * @throws Refusal `unknown_key`, or `forbidden` when it has another one
 */
export async function registerOwnerKey(
  context: SignerContext,
  { body }: { body: z.infer<typeof registerOwnerKeySchema> },
): Promise<{ ownerKey: string }> {
  const { keyId, ownerKey } = body;
  requireActiveKey(context, keyId);
  if (context.store.registerOwnerKey({ keyId, ownerKey })) {
    context.backup.changed(keyId);
    context.log.warn({ keyId, ownerKey }, 'an operator named the owner of a key');
  } else if (context.store.ownerKeyOf(keyId) !== ownerKey) {
    throw new Refusal('forbidden', `key ${keyId} has an owner’s key, which only a document signed by it replaces`);
  }
  return { ownerKey };
}

/**
 * Puts another owner's key in place of the one that signed the document. Repeating it changes nothing.
 * @throws Refusal `unknown_key`, `malformed`, `limits_outdated`, or `forbidden` when the owner's key did not sign it
 */
export async function replaceOwnerKey(
  context: SignerContext,
  { body: { document } }: { body: z.infer<typeof replaceOwnerKeySchema> },
): Promise<{ ownerKey: string }> {
  const parsed = changeSchema.safeParse(parsePayload(document));
  if (!parsed.success) throw new Refusal('malformed', 'the document names no owner’s key');
  const { key_id: keyId, version, owner_key: next } = parsed.data;
  requireActiveKey(context, keyId);
  const known = context.store.ownerKeyChanges(keyId);
  if (known.some((change) => change.document === document)) return { ownerKey: next };
  const current = context.store.ownerKeyOf(keyId);
  if (!current) throw new Refusal('forbidden', `key ${keyId} has no owner’s key yet; an operator registers one`);
  await compactVerify(document, await parseVerificationKey(current), { algorithms: ['EdDSA'] }).catch((cause) => {
    throw new Refusal('forbidden', `the document is not signed by the owner’s key of key ${keyId}`, { cause });
  });
  if (decodeProtectedHeader(document).typ !== TYPE) throw new Refusal('malformed', 'the document is of another type');
  // Again, because another request may have been faster.
  const newest = context.store.ownerKeyChanges(keyId).at(-1)?.version ?? 0;
  if (version <= newest || context.store.ownerKeyOf(keyId) !== current) {
    throw new Refusal(
      'limits_outdated',
      `version ${version} is not above ${newest}, the newest change of the owner’s key`,
    );
  }
  context.store.transaction(() => context.store.replaceOwnerKey({ keyId, ownerKey: next, version, document }));
  context.backup.changed(keyId);
  context.log.warn({ keyId, ownerKey: next }, 'the owner of a key was replaced, by its own word');
  return { ownerKey: next };
}

/** @throws Refusal `unknown_key` */
export function requireActiveKey(context: SignerContext, keyId: string): void {
  if (context.store.stateOf(keyId) === 'active') return;
  throw new Refusal('unknown_key', `signer ${context.party} has no key ${keyId} that all three have stored`);
}
