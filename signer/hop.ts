import { peerOf, type SignerContext } from './context.ts';
import { decodeBatch, encodeBatch } from './engine/engine.ts';
import { openMessage, sealMessage } from './envelope.ts';
import { blaming } from './fault.ts';
import type { LimitNews } from './limits.ts';
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

/** Bytes that say how long the news before the messages are. */
const NEWS_LENGTH_BYTES = 4;

/** Seals the messages of a hop for the other one of the pair, behind what else it is to hear. */
export function sealHop(
  context: SignerContext,
  { run, hop, batches, news = null }: { run: SignRun; hop: Hop; batches: Uint8Array[]; news?: LimitNews | null },
): Promise<string> {
  const told = Buffer.from(JSON.stringify(news));
  const length = Buffer.alloc(NEWS_LENGTH_BYTES);
  length.writeUInt32BE(told.length);
  const { session, counterparty: to, subject } = run;
  return sealMessage(
    { own: context.identity, receiver: peerOf(context, to) },
    {
      context: { session, protocol: 'sign', round: hop, from: context.party, to, subject },
      body: Buffer.concat([length, told, encodeBatch(batches.flatMap(decodeBatch))]),
    },
  );
}

/**
 * Opens what {@link sealHop} made. @returns the messages, one batch a round, and the news as they came
 * @throws Refusal `bad_message`
 */
export async function openHop(
  context: SignerContext,
  { run, hop, message }: { run: SignRun; hop: Hop; message: string },
): Promise<{ batches: Uint8Array[]; news: unknown }> {
  const { session, counterparty: from, subject } = run;
  const body = await openMessage(
    { own: context.identity, sender: peerOf(context, from) },
    { context: { session, protocol: 'sign', round: hop, from, to: context.party, subject }, message },
  );
  const { news, rest } = splitNews(body, { hop, from });
  const messages = blaming(from, () => decodeBatch(rest));
  const expected = HOP_MESSAGES[hop];
  if (messages.length !== expected) {
    throw new Refusal('bad_message', `hop ${hop} holds ${messages.length} messages, expected ${expected}`, {
      culprit: from,
    });
  }
  return { batches: messages.map((each) => encodeBatch([{ ...each, from }])), news };
}

/** @throws Refusal `bad_message` of the one that signed it */
function splitNews(body: Uint8Array, { hop, from }: { hop: Hop; from: Party }): { news: unknown; rest: Uint8Array } {
  try {
    const start = NEWS_LENGTH_BYTES;
    const end = start + Buffer.from(body.subarray(0, start)).readUInt32BE();
    if (end > body.length) throw new Error('longer than the message');
    return { news: JSON.parse(Buffer.from(body.subarray(start, end)).toString('utf8')), rest: body.subarray(end) };
  } catch (cause) {
    throw new Refusal('bad_message', `hop ${hop} does not tell its news`, { culprit: from, cause });
  }
}
