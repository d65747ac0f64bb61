import type { SignerTransport } from '../../signer/call.ts';
import type { SignerContext } from '../../signer/context.ts';
import { parsePublicIdentity } from '../../signer/identity.ts';
import type { Party } from '../../signer/parties.ts';
import { type OpenEnvelope, readEnvelope, writeEnvelope } from './hostile-envelope.ts';

/** What a hostile signer does with one message that it was about to send. */
export interface Opportunity extends OpenEnvelope {
  /** Seals and signs anything at all, under the hostile signer's own identity, by default to the receiver. */
  seal(sent: OpenEnvelope, to?: Party): Promise<string>;
}

/** Answers what is relayed instead: sealed text, or anything. */
export type Cheat = (opportunity: Opportunity) => string | Promise<string>;

export interface HostileSigner {
  /** Honest but for this; undefined plays by the rules. */
  cheat: Cheat | undefined;
  /** What it makes of the messages of others; undefined takes them as they are. */
  hear: ((heard: OpenEnvelope) => OpenEnvelope) | undefined;
  /** The coordinator's way to all signers, where this one says what it likes. */
  transport: SignerTransport;
}

/**
 * Turns a signer in this process into one that runs the real protocol with its real identity and share, and cheats in
 * what it sends. It seals everything to itself, so that each message passes through its hands in clear before it is
 * sealed to its receiver; what it changes of what it hears it signs itself, so that it may believe what it likes.
 */
export async function makeHostile(context: SignerContext, transport: SignerTransport): Promise<HostileSigner> {
  const { identity: own, peers: receivers } = context;
  const self = await parsePublicIdentity(own.publicKey);
  const honest = new Map(
    [...receivers].map(([party, { verificationKey }]) => [
      party,
      { verificationKey, encryptionKey: self.encryptionKey },
    ]),
  );
  const credulous = new Map([...receivers.keys()].map((party) => [party, self]));
  const hostile: HostileSigner = {
    cheat: undefined,
    hear: undefined,
    transport: {
      ...transport,
      async call<T>(...[peer, p]: Parameters<SignerTransport['call']>) {
        if (peer.party !== context.party) return transport.call<T>(peer, p);
        context.peers = hostile.hear ? credulous : honest;
        const body = hostile.hear ? await each(p.body, hear) : p.body;
        return each(await transport.call<T & object>(peer, { ...p, body }), say);
      },
    },
  };

  async function say(message: string): Promise<string> {
    const sent = await readEnvelope(own, message);
    const seal = (changed: OpenEnvelope, to: Party = sent.context.to) =>
      writeEnvelope({ own, receiver: receivers.get(to)! }, changed);
    return hostile.cheat ? hostile.cheat({ ...sent, seal }) : seal(sent);
  }
  async function hear(message: string): Promise<string> {
    const heard = await readEnvelope(own, message);
    return writeEnvelope({ own, receiver: self }, hostile.hear?.(heard) ?? heard);
  }
  return hostile;
}

/** Changes every sealed message in a body or an answer: one, or one for each of the others. */
async function each<T extends object>(said: T, change: (message: string) => Promise<string>): Promise<T> {
  if ('message' in said) return { ...said, message: await change(said.message as string) };
  if (!('messages' in said)) return said;
  const messages = (said.messages as { message: string }[]).map(async (one) => ({
    ...one,
    message: await change(one.message),
  }));
  return { ...said, messages: await Promise.all(messages) };
}
