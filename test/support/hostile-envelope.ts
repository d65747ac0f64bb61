import { compactDecrypt } from 'jose';
import { type MessageContext, sealMessage } from '../../signer/envelope.ts';
import type { PeerIdentity, SignerIdentity } from '../../signer/identity.ts';

/** A sealed message as its receiver could read it, if it checked nothing. */
export interface OpenEnvelope {
  context: MessageContext;
  body: Uint8Array;
}

/** Opens a message with its receiver's key, and believes whatever it says. */
export async function readEnvelope(receiver: SignerIdentity, message: string): Promise<OpenEnvelope> {
  const { plaintext } = await compactDecrypt(message, receiver.decryptionKey);
  const end = plaintext.indexOf(0x0a);
  const [header] = Buffer.from(plaintext.subarray(0, end)).toString('latin1').split('.');
  const { session, protocol, round, from, to, subject } = JSON.parse(Buffer.from(header!, 'base64url').toString());
  const context: MessageContext = { session, protocol, round, from, to, subject };
  return { context, body: Uint8Array.from(plaintext.subarray(end + 1)) };
}

/** Seals whatever it is given, as a signer that checks nothing would. */
export function writeEnvelope(
  p: { own: SignerIdentity; receiver: PeerIdentity },
  { context, body }: OpenEnvelope,
): Promise<string> {
  return sealMessage(p, { context, body });
}
