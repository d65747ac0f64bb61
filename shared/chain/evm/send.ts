import type { Hex } from 'viem';
import type { SendResult } from '../adapter.ts';
import { RpcUnavailable } from '../errors.ts';
import type { EvmClient } from './client.ts';
import { ask } from './rpc.ts';
import { meaningOfSendError } from './send-errors.ts';

/** Hands signed bytes to a node. @throws RpcUnavailable also when the node is busy or says what we do not know */
export async function send(client: EvmClient, { raw }: { raw: string }): Promise<SendResult> {
  try {
    await ask(client.request({ method: 'eth_sendRawTransaction', params: [raw as Hex] }));
    return { outcome: 'sent' };
  } catch (error) {
    if (!(error instanceof RpcUnavailable && error.answer)) throw error;
    const reason = error.answer.text;
    const meaning = meaningOfSendError(reason);
    if (meaning === 'busy') throw error;
    return meaning === 'known' ? { outcome: 'sent' } : { outcome: meaning, reason };
  }
}
