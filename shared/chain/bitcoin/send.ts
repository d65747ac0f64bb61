import type { SendResult } from '../adapter.ts';
import { unavailableAfter } from '../endpoints/agreement.ts';
import type { Testimony } from '../endpoints/endpoint-pool.ts';
import { HttpFailure } from '../endpoints/http-failure.ts';
import type { BitcoinClient } from './client.ts';
import { meaningOfSendError, reasonOf, type SendMeaning, wantedFeeOf } from './send-errors.ts';
import { readRaw } from './unsigned.ts';

/** What one server's node said. */
interface Opinion {
  readonly meaning: SendMeaning;
  readonly reason: string;
  /** Satoshis that it asks for. */
  readonly wantedSat?: bigint | undefined;
}

/**
 * Hands signed bytes to all servers that do not rest: sent, if any has them. They are refused for good only if all that
 * looked at them say so, and these are more than half of the configured ones.
 * @throws RpcUnavailable also when nodes are busy or say what we do not know
 */
export async function send(client: BitcoinClient, { raw }: { raw: string }): Promise<SendResult> {
  const heard = await client.askAll({
    calls: [(backend) => backend.broadcast(raw)],
    isEnough: (testimony) => opinionOf(client, testimony)?.meaning === 'known',
    evenSlow: true,
  });
  const opinions = heard.map((each) => opinionOf(client, each)).filter((each) => each !== undefined);
  const named = (meaning: SendMeaning) => opinions.find((each) => each.meaning === meaning);
  if (named('known')) return { outcome: 'sent' };
  const taken = named('slot_taken');
  if (taken) return { outcome: 'slot_taken', reason: taken.reason };
  const underpriced = named('underpriced');
  if (underpriced) return { outcome: 'underpriced', reason: underpriced.reason, ...floorOf(raw, opinions) };
  const refused = named('refused');
  const areAll = opinions.every((each) => each.meaning === 'refused') && opinions.length > client.size / 2;
  if (refused && areAll) return { outcome: 'refused', reason: refused.reason };
  throw unavailableAfter(client, heard);
}

/** @returns undefined if its node did not get to look at the bytes */
function opinionOf({ judge }: BitcoinClient, { answers: [answer] }: Testimony): Opinion | undefined {
  if (answer?.status === 'fulfilled') return { meaning: 'known', reason: '' };
  const error: unknown = answer?.reason;
  if (!(error instanceof HttpFailure && judge.isDecisive(error))) return undefined;
  return { meaning: meaningOfSendError(error.text), reason: reasonOf(error.text), wantedSat: wantedFeeOf(error.text) };
}

/** Satoshis for a thousand virtual bytes with which the most modest of these nodes would take the bytes. */
function floorOf(raw: string, opinions: readonly Opinion[]): { floor?: string } {
  const wanted = opinions.flatMap(({ wantedSat }) => (wantedSat === undefined ? [] : [wantedSat]));
  const [leastSat] = wanted.toSorted((a, b) => Number(a - b));
  if (leastSat === undefined) return {};
  const vsize = BigInt(readRaw(raw).vsize);
  return { floor: ((leastSat * 1000n + vsize - 1n) / vsize).toString() };
}
