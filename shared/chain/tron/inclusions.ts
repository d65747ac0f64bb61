import type { AgreedInclusion, Inclusion } from '../adapter.ts';
import { agreedInclusions as agreed, type InclusionQuestions } from '../endpoints/agreed-inclusions.ts';
import { inBatches } from '../endpoints/in-batches.ts';
import { object, readBlock } from './answers.ts';
import { blockAt, type TronCall, type TronEndpoints, tronCall } from './node.ts';
import { readInclusion } from './read-inclusion.ts';

/** Each takes a request for its receipt, and one for the block, of each endpoint. */
const transactionsAtOnce = 8;

/** What of these transactions is in a block, solidified or not. @throws RpcUnavailable */
export async function inclusions(
  endpoints: TronEndpoints,
  { hashes }: { hashes: readonly string[] },
): Promise<Inclusion[]> {
  const found = await inBatches(hashes, transactionsAtOnce, (batch) =>
    Promise.all(batch.map(async (inclusion) => readAnswer(await ask(endpoints, { inclusion, api: 'wallet' })))),
  );
  return found.filter((each) => each !== undefined);
}

/** Only what is solidified: such a block stays for good. */
const solidQuestions: InclusionQuestions<TronCall> = {
  newest: tronCall('walletsolidity', 'getnowblock'),
  at: (number) => blockAt('walletsolidity', number),
  read: readBlock,
  inclusion: (inclusion) => ({ inclusion, api: 'walletsolidity' }),
  readInclusion: readAnswer,
};

/**
 * What more than half of all configured endpoints say about transactions in solidified blocks; undecided while a
 * block is not solidified yet.
 * @throws RpcUnavailable
 */
export function agreedInclusions(
  endpoints: TronEndpoints,
  p: { placed: readonly { readonly hash: string; readonly blockNumber: number }[] },
): Promise<AgreedInclusion[]> {
  return inBatches(p.placed, transactionsAtOnce, (placed) => agreed(endpoints, solidQuestions, { placed }));
}

/** Whether a node holds a transaction, in a block or waiting for one. @throws RpcUnavailable */
export async function knows(endpoints: TronEndpoints, { hash }: { hash: string }): Promise<boolean> {
  const found = await ask(endpoints, tronCall('wallet', 'gettransactionbyid', { value: hash }));
  return object(found).txID === hash;
}

function readAnswer(answer: unknown): Inclusion | undefined {
  const { info, block } = object(answer);
  return readInclusion({ info, block });
}

async function ask(endpoints: TronEndpoints, call: TronCall): Promise<unknown> {
  try {
    return await endpoints.request(call);
  } catch (error) {
    throw endpoints.judge.asUnavailable(error);
  }
}
