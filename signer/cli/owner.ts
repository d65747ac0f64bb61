import type { CryptoKey } from 'jose';
import type { SignerClient } from '../client.ts';
import { loadCoordinatorIdentity, parseVerificationKey } from '../identity.ts';
import { type LimitsClaims, verifyLimits } from '../limits-document.ts';
import type { Party } from '../parties.ts';
import type { listLimits } from '../set-limits.ts';
import { UsageError } from './command.ts';

/** The account's owner, by the private key in his file. */
export interface Owner {
  signingKey: CryptoKey;
  publicKey: string;
}

/** @throws Error or UsageError that names the file */
export async function loadOwner(file: string | undefined, option = '--owner-key-file'): Promise<Owner> {
  if (!file) throw new UsageError(`${option} is missing: the file that owner-key new has made`);
  return loadCoordinatorIdentity(file);
}

/** One key of an owner, and what the signers have of his. */
export interface OwnedKey {
  keyId: string;
  /** The newest limits of each wallet, of all that the signers know. */
  limits: LimitsClaims[];
  /** The highest version of a change of the owner's key. */
  ownerKeyVersion: number;
}

/**
 * The key that is named, or the only one of that owner. What signers tell counts as far as the owner signed it.
 * @throws UsageError, Error
 */
export async function findOwnedKey(
  client: SignerClient,
  { owner, key }: { owner: Owner; key: string | undefined },
): Promise<OwnedKey> {
  const keyId = key ?? (await onlyKeyOf(client, owner.publicKey));
  const answers = await client.askEach<Awaited<ReturnType<typeof listLimits>>>({
    path: '/v1/limits/list',
    body: { keyId },
  });
  const told = answers.flatMap((answer) => ('error' in answer ? [] : [answer]));
  if (told.length === 0) throw new Error(answers.map((answer) => ('error' in answer ? answer.error : '')).join('; '));
  const verificationKey = await parseVerificationKey(owner.publicKey);
  const newest = new Map<string, LimitsClaims>();
  for (const { document } of told.flatMap(({ limits }) => limits)) {
    const claims = await verifyLimits(verificationKey, document).catch(() => undefined);
    if (!claims || claims.key_id !== keyId) continue;
    if (claims.version > (newest.get(claims.wallet)?.version ?? 0)) newest.set(claims.wallet, claims);
  }
  const ownerKeyVersion = Math.max(...told.map((each) => each.ownerKeyVersion));
  return { keyId, limits: [...newest.values()], ownerKeyVersion };
}

async function onlyKeyOf(client: SignerClient, publicKey: string): Promise<string> {
  const signers = await client.status();
  const keys = signers.flatMap((signer) => ('keys' in signer ? signer.keys : []));
  const own = [...new Set(keys.filter(({ ownerKey }) => ownerKey === publicKey).map(({ keyId }) => keyId))];
  if (own.length === 1) return own[0]!;
  if (own.length > 1) throw new UsageError(`--key is missing: this owner has ${own.toSorted().join(', ')}`);
  if (keys.length > 0) {
    throw new UsageError(
      `no key has the owner’s key ${publicKey}; owner-key register names one for a key that has none`,
    );
  }
  throw new Error(signers.map((signer) => ('error' in signer ? signer.error : 'no key is there yet')).join('; '));
}

/** What each signer made of the same request: sets the exit code to 1 unless all took it. */
export function reportSigners<T extends object>(
  answers: readonly ({ party: Party } & (T | { error: string }))[],
  tell: (line: string) => void,
): { party: Party; error?: string }[] {
  return answers.map((answer) => {
    if (!('error' in answer)) return { party: answer.party };
    process.exitCode = 1;
    tell(`signer ${answer.party} did not take it: ${answer.error}`);
    return { party: answer.party, error: answer.error };
  });
}
