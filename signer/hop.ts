import { peerOf, type SignerContext } from './context.ts';
import { decodeBatch, encodeBatch } from './engine/engine.ts';
import { openMessage, sealMessage } from './envelope.ts';
import { blaming, refuseBanned } from './fault.ts';
import type { Party } from './parties.ts';
import { Refusal } from './refusal.ts';

/**
 * Three rounds of the protocol in two round trips: the initiator sends round 1; the joiner answers rounds 1 and 2; the
 * initiator answers rounds 2 and 3; with those the joiner has the signature. `hop` counts these messages.
 */
export type Hop = 1 | 2 | 3;

/** How many messages of the protocol a hop holds: one a round. */
const HOP_MESSAGES = { 1: 1, 2: 2, 3: 2 } as const satisfies Record<Hop, number>;

/** The run that a hop belongs to, as both of the pair must see it. */
export interface SignRun {
  session: string;
  keyId: string;
  counterparty: Party;
  /** What both must have been asked for, in words. */
  subject: string;
}

/** Seals the messages of a hop for the other one of the pair. */
export function sealHop(
  context: SignerContext,
  { run, hop, batches }: { run: SignRun; hop: Hop; batches: Uint8Array[] },
): Promise<string> {
  const { session, counterparty: to, subject } = run;
  return sealMessage(
    { own: context.identity, receiver: peerOf(context, to) },
    {
      context: { session, protocol: 'sign', round: hop, from: context.party, to, subject },
      body: encodeBatch(batches.flatMap(decodeBatch)),
    },
  );
}

/**
 * Opens what {@link sealHop} made. @returns the messages, one batch a round
 * @throws Refusal `bad_message`, `banned_pair`
 */
export async function openHop(
  context: SignerContext,
  { run, hop, message }: { run: SignRun; hop: Hop; message: string },
): Promise<Uint8Array[]> {
  const { session, keyId, counterparty: from, subject } = run;
  const body = await openMessage(
    { own: context.identity, sender: peerOf(context, from) },
    { context: { session, protocol: 'sign', round: hop, from, to: context.party, subject }, message },
  );
  refuseBanned(context, { keyId, party: from });
  const messages = blaming(from, () => decodeBatch(body));
  const expected = HOP_MESSAGES[hop];
  if (messages.length !== expected) {
    throw new Refusal('bad_message', `hop ${hop} holds ${messages.length} messages, expected ${expected}`, {
      culprit: from,
    });
  }
  return messages.map((each) => encodeBatch([{ ...each, from }]));
}
