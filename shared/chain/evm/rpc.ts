import { BaseError, HttpRequestError, RpcRequestError } from 'viem';
import { innermostCode, withoutAddresses } from '../endpoints/plain-error.ts';
import { type NodeAnswer, RpcUnavailable } from '../errors.ts';

/**
 * What a node said in the error that viem throws for it. Addresses are removed: they carry credentials.
 * A node that answers with an HTTP error has often put the JSON-RPC error in the body.
 */
export function nodeAnswer(error: unknown): NodeAnswer | undefined {
  if (!(error instanceof BaseError)) return undefined;
  const found = error.walk(
    (each) => each instanceof RpcRequestError || (each instanceof HttpRequestError && each.status !== undefined),
  );
  if (found instanceof RpcRequestError)
    return { code: found.code, text: withoutAddresses(found.details), data: revertData(found.data) };
  if (found instanceof HttpRequestError)
    return { code: found.status ?? 0, text: withoutAddresses(found.details), data: undefined };
  return undefined;
}

/** Waits for a request, and turns its failure into the one error that the adapter throws. @throws RpcUnavailable */
export async function ask<T>(request: Promise<T>): Promise<T> {
  try {
    return await request;
  } catch (error) {
    throw rpcUnavailable(error);
  }
}

/** The failure of a request as the one error that the adapter throws. */
export function rpcUnavailable(error: unknown): RpcUnavailable {
  if (error instanceof RpcUnavailable) return error;
  if (error instanceof BaseError) {
    const ours = error.walk((each) => each instanceof RpcUnavailable);
    if (ours instanceof RpcUnavailable) return ours;
  }
  const answer = nodeAnswer(error);
  if (answer) return new RpcUnavailable(`The chain's endpoint answered: ${answer.text} (${answer.code}).`, { answer });
  // viem's own messages carry the URL; the short message and the innermost cause do not name a path or a password.
  const short = error instanceof BaseError ? withoutAddresses(error.shortMessage) : 'The request failed.';
  const code = innermostCode(error);
  return new RpcUnavailable(`No endpoint of the chain could be reached: ${short}${code ? ` (${code})` : ''}`);
}

/** Nodes put revert data either there or one level deeper. */
function revertData(data: unknown): string | undefined {
  const found = typeof data === 'object' && data !== null ? (data as { data?: unknown }).data : data;
  return typeof found === 'string' && /^0x[0-9a-f]*$/i.test(found) ? found : undefined;
}
