import type { RpcTransactionReceipt } from 'viem';
import type { AgreedInclusion } from '../adapter.ts';
import { agreedInclusions as agreed, type InclusionQuestions } from '../endpoints/agreed-inclusions.ts';
import { blockQuestions } from './blocks.ts';
import type { EvmClient } from './client.ts';
import { readReceipt } from './inclusions.ts';
import type { RpcCall } from './rpc-driver.ts';

const questions: InclusionQuestions<RpcCall> = {
  ...blockQuestions,
  inclusion: (hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] }),
  readInclusion(answer) {
    const receipt = answer as RpcTransactionReceipt | null;
    return receipt?.blockHash ? readReceipt(receipt) : undefined;
  },
};

/** See `agreedInclusions` of shared/chain/endpoints. @throws RpcUnavailable */
export function agreedInclusions(
  client: EvmClient,
  { placed }: { placed: readonly { readonly hash: string; readonly blockNumber: number }[] },
): Promise<AgreedInclusion[]> {
  return agreed(client.endpoints, questions, { placed });
}
