import { CompactSign, compactVerify } from 'jose';
import type { PeerIdentity, SignerIdentity } from './identity.ts';
import type { Party } from './parties.ts';
import { Refusal } from './refusal.ts';

const TYPE = 'purser-share+jws';

/**
 * What one signer says about its share of a key, and the others check: "I have stored it, read it back, and have it in
 * my backup", then "I use it".
 */
export interface ShareClaim {
  state: 'stored' | 'switched';
  key_id: string;
  epoch: number;
  /** The run that made the share. */
  session: string;
  party: Party;
  /** Hex with 0x. */
  public_key: string;
  chain_code: string;
  /** Who sets limits of a key that is being made; null: nobody can. It may change later, so a refresh does not say it. */
  owner_key?: string | null;
}

const canonical = (claim: ShareClaim): Buffer => {
  const { state, key_id, epoch, session, party, public_key, chain_code, owner_key = null } = claim;
  return Buffer.from(JSON.stringify([state, key_id, epoch, session, party, public_key, chain_code, owner_key]));
};

export async function attestShare(own: SignerIdentity, claim: ShareClaim): Promise<string> {
  return new CompactSign(canonical(claim)).setProtectedHeader({ alg: 'EdDSA', typ: TYPE }).sign(own.signingKey);
}

/** @throws Refusal `bad_message` unless the peer attested exactly this */
export async function checkAttestation(
  peer: PeerIdentity,
  p: { attestation: string; claim: ShareClaim },
): Promise<void> {
  const verified = await compactVerify(p.attestation, peer.verificationKey, { algorithms: ['EdDSA'] }).catch(
    () => undefined,
  );
  const same = verified && canonical(p.claim).equals(Buffer.from(verified.payload));
  if (same && verified.protectedHeader.typ === TYPE) return;
  const { state, party, key_id, epoch } = p.claim;
  const what = state === 'stored' ? `stored epoch ${epoch} of` : `switched to epoch ${epoch} of`;
  throw new Refusal('bad_message', `signer ${party} has not attested that it ${what} key ${key_id} as we have it`);
}
