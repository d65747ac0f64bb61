import type { RpcUnavailable } from '../errors.ts';

/** How one endpoint is asked: what a family of chains knows about the wire. */
export interface Driver<Call> {
  /**
   * Asks once.
   * @returns what was answered; `null` where it says that something is not there
   * @throws what the family's {@link Judge} can judge; nothing in it names an address or credentials
   */
  send(call: Call): Promise<unknown>;
  /**
   * Makes sure that the endpoint belongs to the chain; called at its first use and after every rest.
   * @throws WrongChain, or as `send`
   */
  verify(): Promise<void>;
}

/**
 * - `answer`: the endpoint works; what it said is about the request, or nothing that tells anything about itself.
 * - `limited`: it wants to be left alone, for `forMs` if it said so.
 * - `down`: no connection, no answer in time, a server's error, or nothing that can be understood.
 */
export type EndpointFailure =
  | { readonly kind: 'answer' }
  | { readonly kind: 'limited'; readonly forMs: number | undefined }
  | { readonly kind: 'down' };

/** What the errors of a family's endpoints mean. */
export interface Judge {
  /** What an error says about the endpoint. */
  failureOf(error: unknown): EndpointFailure;
  /** Whether another endpoint would only repeat it: asking on would hide it behind the next one's failure. */
  isDecisive(error: unknown): boolean;
  /** Of several errors the one that says most. @param errors one or more */
  mostTelling(errors: readonly unknown[]): unknown;
  /** The one error that adapters throw for it. */
  asUnavailable(error: unknown): RpcUnavailable;
}
