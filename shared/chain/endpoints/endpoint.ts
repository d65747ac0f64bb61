import type { Logger } from '../../log.ts';
import { RpcUnavailable } from '../errors.ts';
import type { Driver, Judge } from './driver.ts';
import { createRest } from './endpoint-rest.ts';
import type { EndpointWatch } from './endpoint-watch.ts';

/** One endpoint may take this long; it must leave time for the rest of an activity's 10 s. */
export const endpointTimeoutMs = 4_000;
/** Another endpoint is asked as well when one takes this many times as long as it usually does, between these two. */
const patience = 3;
const shortestPatienceMs = 100;
const longestPatienceMs = 1_000;
/** Weight of the newest answer in the moving average of the time that answers take. */
const newestWeight = 0.2;

/** One endpoint of a chain: how it is asked, and how well it does. */
export interface Endpoint<Call = unknown> {
  /** Its place in the configuration, from 0. */
  readonly index: number;
  /** Sends the call and accounts for how it went. @throws what its driver throws, or {@link WrongChain} */
  ask(call: Call): Promise<unknown>;
  /** Time left until it is to be asked again; 0 when it does not rest. */
  restMs(): number;
  /** Whether it takes unusually long over something just now. */
  isSlow(): boolean;
  /** What answers take, as a moving average; 0 before the first. */
  usualMs(): number;
  /** How long to wait for it before another one is asked as well. */
  patienceMs(): number;
}

/** The endpoint belongs to another chain: nothing that it says counts. */
export class WrongChain extends RpcUnavailable {}

/**
 * @param host what of its address may be logged
 * @param random 0 to 1, for the length of rests
 */
export function createEndpoint<Call>({
  driver,
  judge,
  host,
  index,
  logger,
  watch,
  random,
}: {
  driver: Driver<Call>;
  judge: Judge;
  host: string;
  index: number;
  logger: Logger | undefined;
  watch: EndpointWatch | undefined;
  random: () => number;
}): Endpoint<Call> {
  const rest = createRest({ host, logger, random });
  const tell = watch?.add({ host, index });
  let usualMs = 0;
  let slow = 0;
  let verified: Promise<void> | undefined;
  const patienceMs = () => Math.min(Math.max(usualMs * patience, shortestPatienceMs), longestPatienceMs);

  return {
    index,
    restMs: rest.leftMs,
    isSlow: () => slow > 0,
    usualMs: () => usualMs,
    patienceMs,
    async ask(call) {
      const startedMs = performance.now();
      let isLate = false;
      const late = setTimeout(() => {
        isLate = true;
        slow += 1;
      }, patienceMs());
      try {
        const answer = await askVerified(call);
        const tookMs = performance.now() - startedMs;
        usualMs = usualMs === 0 ? tookMs : usualMs + newestWeight * (tookMs - usualMs);
        rest.worked({ startedMs });
        tell?.({ outcome: 'ok', seconds: tookMs / 1000 });
        return answer;
      } catch (error) {
        const failure = error instanceof WrongChain ? { kind: 'wrong_chain' as const } : judge.failureOf(error);
        if (failure.kind !== 'answer') rest.failed({ startedMs, ...failure });
        const outcome = failure.kind === 'answer' ? 'refused' : failure.kind;
        tell?.({ outcome, seconds: (performance.now() - startedMs) / 1000 });
        if (rest.leftMs() > 0) verified = undefined;
        throw error;
      } finally {
        clearTimeout(late);
        if (isLate) slow -= 1;
      }
    },
  };

  /** Both questions travel at once; what is said counts only if the chain is the right one. */
  async function askVerified(call: Call): Promise<unknown> {
    const said = driver.send(call);
    verified ??= driver.verify().catch((error: unknown) => {
      verified = undefined;
      throw error;
    });
    const [answer, chain] = await Promise.allSettled([said, verified]);
    if (chain.status === 'rejected') throw chain.reason;
    if (answer.status === 'rejected') throw answer.reason;
    return answer.value;
  }
}
