import { hearAll, mostNamed, reachedByMost } from '../endpoints/agreement.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';
import type { HttpCall } from '../endpoints/http.ts';
import { RpcUnavailable } from '../errors.ts';
import { readBlock, type TronBlock } from './answers.ts';
import { blockAt, type TronEndpoints, tronCall } from './node.ts';

/** What most endpoints say, all of them having reached a solidified block. */
export interface SolidView {
  /** The newest solidified block that most endpoints have reached. */
  readonly block: TronBlock;
  /** Time of the newest block that most endpoints have reached, Unix milliseconds. */
  readonly headMs: number;
  /** What most of them answered to a call. @param index of the call @throws RpcUnavailable when none can be read */
  said<T>(index: number, read: (answer: unknown) => T | undefined): T;
}

/**
 * Asks all endpoints the same things, and hears those that have reached the solidified block that most have reached.
 * In this order, so that answers are of that block or of a later one: what was paid up to it, is paid in them. Balances
 * are asked of what is solidified, since in the newest block's state a node counts what only waits for a block.
 * @throws RpcUnavailable
 */
export async function viewSolid(endpoints: TronEndpoints, calls: readonly HttpCall[]): Promise<SolidView> {
  const newest = await hearAll(endpoints, [
    tronCall('walletsolidity', 'getnowblock'),
    tronCall('wallet', 'getnowblock'),
  ]);
  const reached = newest.flatMap(({ endpoint, answers }) => {
    const [solid, head] = answers.map(readBlock);
    return solid && head ? [{ endpoint, solid, head }] : [];
  });
  if (reached.length === 0) throw new RpcUnavailable('No endpoint of the chain answered with its newest blocks.');
  const number = reachedByMost(reached.map(({ solid }) => solid.number));
  const headMs = reachedByMost(reached.map(({ head }) => head.timestampMs));
  const witnesses = new Set<Endpoint>(
    reached.filter(({ solid }) => solid.number >= number).map(({ endpoint }) => endpoint),
  );
  endpoints.noteAgreeing(witnesses);
  const heard = (await hearAll(endpoints, [...calls, blockAt('walletsolidity', number)])).filter(({ endpoint }) =>
    witnesses.has(endpoint),
  );
  const said = <T>(index: number, read: (answer: unknown) => T | undefined): T => {
    const votes = heard.flatMap(({ answers }) => (answers[index] === undefined ? [] : (read(answers[index]) ?? [])));
    const most = mostNamed(votes as T[], written);
    if (!most) throw new RpcUnavailable('No endpoint of the chain gave an answer that can be used.');
    return most.vote;
  };
  return { block: said(calls.length, readBlock), headMs, said };
}

function written(value: unknown): string {
  return JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `${each}n` : each));
}
