import { CompactEncrypt, compactDecrypt, FlattenedSign, flattenedVerify } from 'jose';
import { z } from 'zod';
import type { PeerIdentity, SignerIdentity } from './identity.ts';
import type { Party } from './parties.ts';
import { Refusal } from './refusal.ts';

const TYPE = 'purser-mpc+jws';

const PROTOCOLS = ['keygen', 'sign', 'refresh', 'repair', 'records'] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/** Everything that a protocol message is bound to, besides its bytes. */
export interface MessageContext {
  /** 32 random bytes in hex, the same for all parties of a run. */
  session: string;
  protocol: Protocol;
  /** Counts the hops of a run from 1. */
  round: number;
  from: Party;
  to: Party;
  /**
   * What the run is about: key, epoch, digest and the like, in words. Each party says what it was asked for, so a
   * coordinator that asked two parties for different things is found before the engine would blame one of them.
   */
  subject: string;
}

const headerSchema = z.object({
  typ: z.literal(TYPE),
  b64: z.literal(false),
  session: z.string(),
  protocol: z.enum(PROTOCOLS),
  round: z.int(),
  from: z.int(),
  to: z.int(),
  subject: z.string(),
});

/** Ends the signature; what follows are the bytes it was made over. Neither part of a compact JWS holds one. */
const NEWLINE = 0x0a;

/**
 * Signs protocol bytes as `context.from` (JWS, EdDSA; the context is in the protected header; the payload is detached
 * and unencoded, RFC 7797, because messages are large and base64 of base64 costs more than the signature), then
 * encrypts both to `context.to` (JWE, ECDH-ES with A256GCM). The coordinator that relays the result can neither read
 * nor change it.
 */
export async function sealMessage(
  p: { own: SignerIdentity; receiver: PeerIdentity },
  { context, body }: { context: MessageContext; body: Uint8Array },
): Promise<string> {
  const jws = await new FlattenedSign(body)
    .setProtectedHeader({ alg: 'EdDSA', typ: TYPE, b64: false, crit: ['b64'], ...context })
    .sign(p.own.signingKey);
  return new CompactEncrypt(Buffer.concat([Buffer.from(`${jws.protected}..${jws.signature}\n`), body]))
    .setProtectedHeader({ alg: 'ECDH-ES', enc: 'A256GCM', cty: TYPE })
    .encrypt(p.receiver.encryptionKey);
}

/**
 * Opens what {@link sealMessage} made, and insists that it was made for exactly this place in this run.
 * @throws Refusal `bad_message`, without a culprit: whoever relayed it may have changed or moved it
 */
export async function openMessage(
  p: { own: SignerIdentity; sender: PeerIdentity },
  { context, message }: { context: MessageContext; message: string },
): Promise<Uint8Array> {
  const what = `${context.protocol} message of round ${context.round} from signer ${context.from}`;
  let header: unknown;
  let body: Uint8Array;
  try {
    const algorithms = { keyManagementAlgorithms: ['ECDH-ES'], contentEncryptionAlgorithms: ['A256GCM'] };
    const { plaintext } = await compactDecrypt(message, p.own.decryptionKey, algorithms);
    const end = plaintext.indexOf(NEWLINE);
    const [header64, , signature] = Buffer.from(plaintext.subarray(0, end)).toString('latin1').split('.');
    body = plaintext.subarray(end + 1);
    const jws = { protected: header64 ?? '', payload: body, signature: signature ?? '' };
    const verified = await flattenedVerify(jws, p.sender.verificationKey, { algorithms: ['EdDSA'] });
    header = verified.protectedHeader;
  } catch (cause) {
    throw new Refusal('bad_message', `${what} does not decrypt and verify`, { cause });
  }
  const found = headerSchema.safeParse(header);
  if (!found.success) throw new Refusal('bad_message', `${what} does not say where it belongs`);
  for (const name of ['session', 'protocol', 'round', 'from', 'to', 'subject'] as const) {
    if (found.data[name] !== context[name]) {
      throw new Refusal('bad_message', `${what} is for ${name} ${found.data[name]}, expected ${context[name]}`);
    }
  }
  return body;
}
