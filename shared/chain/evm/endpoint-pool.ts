import type { Logger } from '../../log.ts';
import { createEndpoint, type Endpoint, endpointTimeoutMs, type RpcCall } from './endpoint.ts';
import { isDecisive } from './endpoint-failure.ts';
import { raceEndpoints } from './race-endpoints.ts';

/** Differences in speed that are smaller do not count: who is asked first should not change all the time. */
const speedStepMs = 25;

/** What one endpoint said to each of several calls; those that it did not answer have an error. */
export interface Testimony {
  readonly endpoint: Endpoint;
  readonly answers: readonly PromiseSettledResult<unknown>[];
}

/** All endpoints of one chain. */
export interface EndpointPool {
  /** How many are configured, whatever their state. */
  readonly size: number;
  /**
   * Asks the best one, and the next ones when that fails or takes long; the first usable answer wins. That something
   * is not there (`null`) is believed when no other endpoint has it either.
   * @throws the error that says most
   */
  request(call: RpcCall): Promise<unknown>;
  /**
   * Asks all that do not rest the same things, and waits for those that answer in their usual time.
   * @param isEnough ends the wait early
   * @param evenSlow also those that just now take long, though the others are a majority without them
   * @returns what was said by then, best endpoint first
   */
  askAll(p: {
    calls: readonly RpcCall[];
    isEnough?: (testimony: Testimony) => boolean;
    evenSlow?: boolean;
  }): Promise<Testimony[]>;
  /** Notes which endpoints show the chain as most do; the others are asked after them. */
  noteAgreeing(agreeing: ReadonlySet<Endpoint>): void;
}

/** @param random 0 to 1, for the length of rests */
export function createEndpointPool({
  urls,
  chainId,
  logger,
  random = Math.random,
}: {
  urls: readonly string[];
  chainId: number;
  logger?: Logger | undefined;
  random?: () => number;
}): EndpointPool {
  const endpoints = urls.map((url, index) => createEndpoint({ url, index, chainId, logger, random }));
  let differing: ReadonlySet<Endpoint> = new Set();

  return {
    size: endpoints.length,
    request: (call) => raceEndpoints({ ...inOrder(), call, timeoutMs: endpointTimeoutMs }),
    askAll: ({ calls, isEnough = () => false, evenSlow = false }) =>
      hear({ asked: witnesses({ evenSlow }), calls, isEnough }),
    noteAgreeing(agreeing) {
      differing = new Set(endpoints.filter((each) => !agreeing.has(each)));
    },
  };

  /** Those to be asked, best first, and those that rest, the one that rests least first. */
  function inOrder(): { ready: Endpoint[]; resting: Endpoint[] } {
    const badness = (each: Endpoint) => [
      Number(each.isSlow()),
      Number(differing.has(each)),
      Math.round(each.usualMs() / speedStepMs),
      each.index,
    ];
    const compare = (a: readonly number[], b: readonly number[]) =>
      a.map((value, place) => value - b[place]!).find((difference) => difference !== 0) ?? 0;
    return {
      ready: endpoints.filter((each) => each.restMs() === 0).toSorted((a, b) => compare(badness(a), badness(b))),
      resting: endpoints.filter((each) => each.restMs() > 0).toSorted((a, b) => a.restMs() - b.restMs()),
    };
  }

  /** With all resting the one that rests least is asked anyway. One that hangs is asked only where it is needed. */
  function witnesses({ evenSlow }: { evenSlow: boolean }): Endpoint[] {
    const { ready, resting } = inOrder();
    if (ready.length === 0) return resting.slice(0, 1);
    const prompt = ready.filter((each) => !each.isSlow());
    return prompt.length > endpoints.length / 2 && !evenSlow ? prompt : ready;
  }

  function hear({
    asked,
    calls,
    isEnough,
  }: {
    asked: readonly Endpoint[];
    calls: readonly RpcCall[];
    isEnough: (testimony: Testimony) => boolean;
  }): Promise<Testimony[]> {
    const heard: Testimony[] = [];
    return new Promise((resolve) => {
      let [pending, grace]: [number, NodeJS.Timeout | undefined] = [asked.length, undefined];
      const limit = setTimeout(end, endpointTimeoutMs);
      for (const endpoint of asked)
        Promise.allSettled(calls.map((call) => endpoint.ask(call))).then((answers) => {
          heard.push({ endpoint, answers });
          pending -= 1;
          const isHeard = heard.filter((each) => answered(each)).length > endpoints.length / 2;
          if (pending === 0 || isEnough(heard.at(-1)!)) end();
          // Most have answered: whoever takes longer than usual now is not waited for.
          else if (isHeard) grace ??= setTimeout(end, Math.max(...asked.map((each) => each.patienceMs())));
        });
      function end(): void {
        clearTimeout(limit);
        clearTimeout(grace);
        resolve(heard.toSorted((a, b) => asked.indexOf(a.endpoint) - asked.indexOf(b.endpoint)));
      }
    });
  }
}

/** Whether the endpoint gave any answer that is one, be it a refusal. */
function answered({ answers }: Testimony): boolean {
  return answers.some((each) => each.status === 'fulfilled' || isDecisive(each.reason));
}
