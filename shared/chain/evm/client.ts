import { type Client, createClient, fallback, http } from 'viem';
import { isExecutionFailure } from './revert.ts';
import { nodeAnswer } from './rpc.ts';
import { meaningOfSendError } from './send-errors.ts';

export type EvmClient = Client;

/** One endpoint that does not answer must leave time for the next one within an activity's 10 s. */
const timeoutMs = 4_000;
/** Requests of one moment travel together; public endpoints take about this many. */
const maxBatchSize = 50;

/**
 * A client for one chain. Endpoints are asked in the given order; the next one is asked when one cannot be reached or
 * gives no answer that decides anything. None is ever taken out of use. Connections are kept alive by the runtime.
 * @param urls may hold credentials; they are never logged nor put into errors
 */
export function createEvmClient({ urls }: { urls: readonly string[] }): EvmClient {
  // Repeats are the caller's: Temporal's, or the watcher's next round. A single endpoint is asked twice, because
  // a kept-alive connection may have been closed at the other end.
  const retryCount = urls.length === 1 ? 1 : 0;
  const endpoints = urls.map((url) =>
    http(url, { timeout: timeoutMs, retryCount, retryDelay: 50, batch: { batchSize: maxBatchSize, wait: 0 } }),
  );
  return createClient({
    transport: fallback(endpoints, { rank: false, retryCount: 0, shouldThrow: isDecisive }),
    cacheTime: 0,
  });
}

/** An answer that another endpoint would repeat: asking on would only hide it behind the next one's failure. */
function isDecisive(error: Error): boolean {
  const answer = nodeAnswer(error);
  return answer !== undefined && (isExecutionFailure(answer) || meaningOfSendError(answer.text) !== 'busy');
}
