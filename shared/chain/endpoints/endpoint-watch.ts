/** How one question to an endpoint went; `refused`: it answered, and said no. */
export type EndpointOutcome = 'ok' | 'refused' | 'limited' | 'down' | 'wrong_chain';

/** Is told how the endpoints of a chain do, for whoever measures. */
export interface EndpointWatch {
  /**
   * Begins to look at one.
   * @param p.host what of its address may be seen; several may be of one host
   * @param p.index its place in the configuration, from 0
   * @returns what is to be told of each question
   */
  add(p: { host: string; index: number }): (asked: { outcome: EndpointOutcome; seconds: number }) => void;
}
