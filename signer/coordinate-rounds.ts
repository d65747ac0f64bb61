import { NoAnswer, type SignerPeer, type SignerTransport } from './call.ts';
import type { OperationPath } from './operations.ts';
import type { Party } from './parties.ts';
import type { Outbound } from './rounds.ts';

/** What may have arrived without an answer is asked again, where repeating it changes nothing. */
const ATTEMPTS_MAX = 3;

/** One question to all three. */
export interface Question {
  path: OperationPath;
  session: string;
  body: object;
  timeoutMs: number;
  signal: AbortSignal;
}

/** Waits for all to end, then throws the first error: an abort must not overtake a request that is under way. */
export async function askAll<T>(
  peers: readonly SignerPeer[],
  ask: (peer: SignerPeer) => Promise<T>,
): Promise<Map<Party, T>> {
  const results = await Promise.allSettled(peers.map(ask));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  return new Map(peers.map((peer, i) => [peer.party, (results[i] as PromiseFulfilledResult<T>).value]));
}

/** Asks all three the same, and again whoever does not answer. For what may be repeated only. */
export async function insistOnAll<T>(
  transport: SignerTransport,
  p: Question & { peers: readonly SignerPeer[] },
): Promise<Map<Party, T>> {
  const { peers, ...question } = p;
  return askAll(peers, async (peer) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await transport.call<T>(peer, question);
      } catch (error) {
        if (!(error instanceof NoAnswer) || attempt >= ATTEMPTS_MAX) throw error;
      }
    }
  });
}

/** Brings everybody the messages of a round that are meant for it. */
export async function relayRound<T>(
  transport: SignerTransport,
  p: Omit<Question, 'body'> & {
    peers: readonly SignerPeer[];
    round: number;
    outbound: ReadonlyMap<Party, Outbound>;
  },
): Promise<Map<Party, T>> {
  const { peers, round, outbound, ...question } = p;
  return askAll(peers, (peer) => {
    const messages = [...outbound].flatMap(([from, { messages }]) =>
      messages.filter(({ to }) => to === peer.party).map(({ message }) => ({ from, message })),
    );
    return transport.call<T>(peer, { ...question, body: { round, messages } });
  });
}
