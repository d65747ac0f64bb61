import type { SendResult } from '../adapter.ts';
import { unavailableAfter } from '../endpoints/agreement.ts';
import type { Testimony } from '../endpoints/endpoint-pool.ts';
import type { NodeAnswer } from '../errors.ts';
import type { EvmClient } from './client.ts';
import { kindOfAnswer, meaningOfSendError, type SendMeaning } from './node-errors.ts';
import { nodeAnswer } from './rpc.ts';

/** What one endpoint said; `undefined` if it did not get to look at the bytes. */
type Opinion = { readonly meaning: SendMeaning; readonly reason: string } | undefined;

/**
 * Hands signed bytes to all endpoints that do not rest: sent, if any has them. They are refused for good only if all
 * that looked at them say so, and these are more than half of the configured ones.
 * @throws RpcUnavailable also when nodes are busy or say what we do not know
 */
export async function send(client: EvmClient, { raw }: { raw: string }): Promise<SendResult> {
  const heard = await client.endpoints.askAll({
    calls: [{ method: 'eth_sendRawTransaction', params: [raw] }],
    isEnough: (testimony) => opinion(testimony)?.meaning === 'known',
    evenSlow: true,
  });
  const opinions = heard.map(opinion).filter((each) => each !== undefined);
  const named = (meaning: SendMeaning) => opinions.find((each) => each.meaning === meaning);
  if (named('known')) return { outcome: 'sent' };
  for (const outcome of ['slot_taken', 'unfunded', 'underpriced'] as const) {
    const found = named(outcome);
    if (found) return { outcome, reason: found.reason };
  }
  const refused = named('refused');
  const areAll = opinions.every((each) => each.meaning === 'refused') && opinions.length > client.endpoints.size / 2;
  if (refused && areAll) return { outcome: 'refused', reason: refused.reason };
  throw unavailableAfter(client.endpoints, heard);
}

function opinion({ answers: [answer] }: Testimony): Opinion {
  if (answer?.status !== 'rejected') return { meaning: 'known', reason: '' };
  const said = nodeAnswer(answer.reason);
  if (!said || !hasLooked(said)) return undefined;
  return { meaning: meaningOfSendError(said.text), reason: said.text };
}

/** Whether the answer is about the bytes, as opposed to the endpoint's own trouble. */
function hasLooked(said: NodeAnswer): boolean {
  const kind = kindOfAnswer(said);
  return kind !== 'limited' && kind !== 'lags';
}
