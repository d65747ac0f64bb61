import { CompactSign, compactVerify } from 'jose';
import type { PeerIdentity, SignerIdentity } from './identity.ts';
import type { Party } from './parties.ts';
import { Refusal } from './refusal.ts';

const TYPE = 'purser-share-stored+jws';

/** "I have stored my share of this key, and read it back": what one signer says, and the others check. */
export interface StoredClaim {
  key_id: string;
  session: string;
  party: Party;
  /** Hex with 0x. */
  public_key: string;
  chain_code: string;
}

const canonical = (claim: StoredClaim): Buffer =>
  Buffer.from(JSON.stringify([claim.key_id, claim.session, claim.party, claim.public_key, claim.chain_code]));

export async function attestStored(own: SignerIdentity, claim: StoredClaim): Promise<string> {
  return new CompactSign(canonical(claim)).setProtectedHeader({ alg: 'EdDSA', typ: TYPE }).sign(own.signingKey);
}

/** @throws Refusal `bad_message` unless the peer attested exactly this */
export async function checkStored(peer: PeerIdentity, p: { attestation: string; claim: StoredClaim }): Promise<void> {
  const verified = await compactVerify(p.attestation, peer.verificationKey, { algorithms: ['EdDSA'] }).catch(
    () => undefined,
  );
  const same = verified && canonical(p.claim).equals(Buffer.from(verified.payload));
  if (same && verified.protectedHeader.typ === TYPE) return;
  throw new Refusal(
    'bad_message',
    `signer ${p.claim.party} has not attested that it stored key ${p.claim.key_id} as we have it`,
  );
}
