import type { SendResult } from '../adapter.ts';
import type { NodeAnswer } from '../errors.ts';
import { RpcUnavailable } from '../errors.ts';
import type { EvmClient } from './client.ts';
import { mostTelling } from './endpoint-failure.ts';
import type { Testimony } from './endpoint-pool.ts';
import { kindOfAnswer, meaningOfSendError, type SendMeaning } from './node-errors.ts';
import { nodeAnswer, rpcUnavailable } from './rpc.ts';

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
  for (const outcome of ['slot_taken', 'unfunded'] as const) {
    const found = named(outcome);
    if (found) return { outcome, reason: found.reason };
  }
  const refused = named('refused');
  const areAll = opinions.every((each) => each.meaning === 'refused') && opinions.length > client.endpoints.size / 2;
  if (refused && areAll) return { outcome: 'refused', reason: refused.reason };
  throw unavailable(heard);
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

function unavailable(heard: readonly Testimony[]): RpcUnavailable {
  const errors = heard.flatMap(({ answers }) =>
    answers.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : [])),
  );
  if (errors.length === 0) return new RpcUnavailable('No endpoint of the chain answered in time.');
  return rpcUnavailable(mostTelling(errors));
}
