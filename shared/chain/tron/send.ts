import type { SendResult } from '../adapter.ts';
import { unavailableAfter } from '../endpoints/agreement.ts';
import type { Testimony } from '../endpoints/endpoint-pool.ts';
import { withoutAddresses } from '../endpoints/plain-error.ts';
import { RpcUnavailable } from '../errors.ts';
import { object } from './answers.ts';
import { type TronEndpoints, tronCall } from './node.ts';

/**
 * - `known`: it has these very bytes.
 * - `unfunded`: the sender cannot pay for it yet.
 * - `refused`: it will not take them.
 * - `busy`: a repeat may help. Also what is not known here: only a certain refusal ends a payment.
 */
type Meaning = 'known' | 'unfunded' | 'refused' | 'busy';

interface Opinion {
  readonly meaning: Meaning;
  readonly reason: string;
}

/** Source: java-tron, `Wallet.broadcastTransaction`; api.proto, `Return.response_code`. */
const meanings: Readonly<Record<string, Meaning>> = {
  SUCCESS: 'known',
  // Said as well of bytes that the node has refused a moment ago: whether they are there is told by asking for them.
  DUP_TRANSACTION_ERROR: 'known',
  BANDWITH_ERROR: 'unfunded',
  SIGERROR: 'refused',
  TOO_BIG_TRANSACTION_ERROR: 'refused',
  TAPOS_ERROR: 'refused',
  TRANSACTION_EXPIRATION_ERROR: 'refused',
  CONTRACT_VALIDATE_ERROR: 'refused',
};

/** Of a sender without enough coins, or whom the node has not seen yet. Source: java-tron, `TransferActuator.validate`. */
const isAboutMoney = /balance is not sufficient|no OwnerAccount|account .* does ?n.?t exist|insufficient/i;

/**
 * Hands signed bytes to all endpoints that do not rest: sent, if any has them. They are refused only if all that looked
 * at them say so, and these are more than half of the configured ones. A refusal stops the sending and no more: until
 * the bytes have expired, another node may still take them.
 * @throws RpcUnavailable also when nodes are busy or say what we do not know
 */
export async function send(endpoints: TronEndpoints, { raw }: { raw: string }): Promise<SendResult> {
  const heard = await endpoints.askAll({
    calls: [tronCall('wallet', 'broadcasthex', { transaction: raw })],
    isEnough: (testimony) => opinion(testimony)?.meaning === 'known',
    evenSlow: true,
  });
  const opinions = heard.map(opinion).filter((each) => each !== undefined);
  const named = (meaning: Meaning) => opinions.find((each) => each.meaning === meaning);
  if (named('known')) return { outcome: 'sent' };
  const unfunded = named('unfunded');
  if (unfunded) return { outcome: 'unfunded', reason: unfunded.reason };
  const refused = named('refused');
  const areAll = opinions.every((each) => each.meaning === 'refused') && opinions.length > endpoints.size / 2;
  if (refused && areAll) return { outcome: 'refused', reason: refused.reason };
  const [said] = opinions;
  throw said
    ? new RpcUnavailable(`The chain's endpoint answered: ${said.reason}.`)
    : unavailableAfter(endpoints, heard);
}

/** What one endpoint said; undefined if it did not get to look at the bytes. */
function opinion({ answers: [answer] }: Testimony): Opinion | undefined {
  if (answer?.status !== 'fulfilled') return undefined;
  const { result, code, message } = object(answer.value);
  if (result === true) return { meaning: 'known', reason: '' };
  const [name, text] = [typeof code === 'string' ? code : '', typeof message === 'string' ? message : ''];
  const meaning = meanings[name] ?? 'busy';
  const isUnfunded = name.startsWith('CONTRACT_') && isAboutMoney.test(text);
  return {
    meaning: isUnfunded ? 'unfunded' : meaning,
    reason: withoutAddresses(text).replace(/\.$/, '') || name || 'nothing that can be understood',
  };
}
