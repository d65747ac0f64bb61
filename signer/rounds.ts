import { z } from 'zod';
import { peerOf, type SignerContext } from './context.ts';
import { decodeBatch, encodeBatch, type Message } from './engine/engine.ts';
import { openMessage, type Protocol, sealMessage } from './envelope.ts';
import { blaming } from './fault.ts';
import { othersThan, PARTIES, type Party, THRESHOLD } from './parties.ts';
import { Refusal } from './refusal.ts';

/** Body of a request that brings what both others said in one round. */
export const roundSchema = z.strictObject({
  round: z.int().min(1),
  messages: z.array(z.strictObject({ from: z.literal(PARTIES), message: z.string() })).length(THRESHOLD),
});

/** What goes to the two others, sealed. */
export interface Outbound {
  messages: { to: Party; message: string }[];
}

/** One round of a run of all three. */
interface Round {
  session: string;
  protocol: Protocol;
  /** See MessageContext. */
  subject: string;
  round: number;
}

/** Seals one envelope for each peer: what is meant for it, and the broadcasts. */
export async function sealRound(context: SignerContext, p: Round & { batch: Uint8Array }): Promise<Outbound> {
  const { batch, ...place } = p;
  const all = decodeBatch(batch);
  const messages = othersThan(context.party).map(async (to) => ({
    to,
    message: await sealMessage(
      { own: context.identity, receiver: peerOf(context, to) },
      {
        context: { ...place, from: context.party, to },
        body: encodeBatch(all.filter((m) => m.to === to || m.to === 0)),
      },
    ),
  }));
  return { messages: await Promise.all(messages) };
}

/**
 * Opens the envelopes of both peers into one batch, the senders being those whose signatures verified.
 * @throws Refusal `bad_message`
 */
export async function openRound(
  context: SignerContext,
  p: Round & { messages: z.infer<typeof roundSchema>['messages'] },
): Promise<Uint8Array> {
  const { messages: sealed, ...place } = p;
  const opened = othersThan(context.party).map(async (from): Promise<Message[]> => {
    const message = sealed.find((m) => m.from === from)?.message;
    if (message === undefined) {
      throw new Refusal('bad_message', `the message of signer ${from} for round ${p.round} is missing`);
    }
    const body = await openMessage(
      { own: context.identity, sender: peerOf(context, from) },
      { context: { ...place, from, to: context.party }, message },
    );
    return blaming(from, () => decodeBatch(body)).map((m) => ({ ...m, from }));
  });
  return encodeBatch((await Promise.all(opened)).flat());
}
