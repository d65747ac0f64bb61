import type { Logger } from '../../log.ts';
import type { Driver, Judge } from './driver.ts';
import { createEndpoint, type Endpoint, endpointTimeoutMs } from './endpoint.ts';
import type { EndpointWatch } from './endpoint-watch.ts';
import { raceEndpoints } from './race-endpoints.ts';

/** Differences in speed that are smaller do not count: who is asked first should not change all the time. */
const speedStepMs = 25;

/** What one endpoint said to each of several calls; those that it did not answer have an error. */
export interface Testimony {
  readonly endpoint: Endpoint;
  readonly answers: readonly PromiseSettledResult<unknown>[];
}

interface Question<Call> {
  readonly calls: readonly Call[];
  readonly isEnough: (testimony: Testimony) => boolean;
  readonly deadlineMs: number;
}

/** All endpoints of one chain. */
export interface EndpointPool<Call> {
  /** How many are configured, whatever their state. */
  readonly size: number;
  /** What their errors mean. */
  readonly judge: Judge;
  /**
   * Asks the best one, and the next ones when that fails or takes long; the first usable answer wins. That something
   * is not there (`null`) is believed when no other endpoint has it either.
   * @throws the error that says most
   */
  request(call: Call): Promise<unknown>;
  /**
   * Asks all that do not rest the same things, and waits for those that answer in their usual time.
   * @param isEnough ends the wait early
   * @param evenSlow also those that just now take long, though the others are a majority without them
   * @returns what was said by then, best endpoint first
   */
  askAll(p: {
    calls: readonly Call[];
    isEnough?: (testimony: Testimony) => boolean;
    evenSlow?: boolean;
  }): Promise<Testimony[]>;
  /** Notes which endpoints show the chain as most do; the others are asked after them. */
  noteAgreeing(agreeing: ReadonlySet<Endpoint>): void;
}

/**
 * @param urls in the order in which they are asked while they do equally well; may hold credentials, and only their
 *   hosts are ever logged
 * @param connect how one of them is asked
 * @param random 0 to 1, for the length of rests
 */
export function createEndpointPool<Call>({
  urls,
  connect,
  judge,
  logger,
  watch,
  random = Math.random,
}: {
  urls: readonly string[];
  connect: (url: string) => Driver<Call>;
  judge: Judge;
  logger?: Logger | undefined;
  watch?: EndpointWatch | undefined;
  random?: () => number;
}): EndpointPool<Call> {
  const endpoints = urls.map((url, index) =>
    createEndpoint({ driver: connect(url), judge, host: new URL(url).host, index, logger, watch, random }),
  );
  let differing: ReadonlySet<Endpoint> = new Set();

  return {
    size: endpoints.length,
    judge,
    request: (call) => raceEndpoints({ ...inOrder(), judge, call, timeoutMs: endpointTimeoutMs }),
    askAll: ({ calls, isEnough = () => false, evenSlow = false }) =>
      hear(witnesses({ evenSlow }), { calls, isEnough, deadlineMs: performance.now() + endpointTimeoutMs }),
    noteAgreeing(agreeing) {
      differing = new Set(endpoints.filter((each) => !agreeing.has(each)));
    },
  };

  /** Those to be asked, best first, and those that rest, the one that rests least first. */
  function inOrder(): { ready: Endpoint<Call>[]; resting: Endpoint<Call>[] } {
    const badness = (each: Endpoint<Call>) => [
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

  /** One that hangs is asked only where it is needed, and the one that rests least only when no other can answer. */
  function witnesses({ evenSlow }: { evenSlow: boolean }): { asked: Endpoint<Call>[]; spare: Endpoint<Call>[] } {
    const { ready, resting } = inOrder();
    const prompt = ready.filter((each) => !each.isSlow());
    const asked = prompt.length > endpoints.length / 2 && !evenSlow ? prompt : ready;
    return { asked, spare: resting.slice(0, 1) };
  }

  async function hear(
    { asked, spare }: { asked: readonly Endpoint<Call>[]; spare: readonly Endpoint<Call>[] },
    question: Question<Call>,
  ): Promise<Testimony[]> {
    const heard = await hearThem(asked, question);
    return heard.some(answered) || spare.length === 0 ? heard : [...heard, ...(await hearThem(spare, question))];
  }

  function hearThem(
    asked: readonly Endpoint<Call>[],
    { calls, isEnough, deadlineMs }: Question<Call>,
  ): Promise<Testimony[]> {
    const heard: Testimony[] = [];
    return new Promise((resolve) => {
      let [pending, grace]: [number, NodeJS.Timeout | undefined] = [asked.length, undefined];
      const limit = setTimeout(end, deadlineMs - performance.now());
      if (pending === 0) end();
      for (const endpoint of asked)
        Promise.allSettled(calls.map((call) => endpoint.ask(call))).then((answers) => {
          heard.push({ endpoint, answers });
          pending -= 1;
          const isHalf = heard.filter(answered).length >= endpoints.length / 2;
          if (pending === 0 || isEnough({ endpoint, answers })) end();
          // As many have answered as have not: whoever takes longer than usual now is not waited for.
          else if (isHalf) grace ??= setTimeout(end, Math.max(...asked.map((each) => each.patienceMs())));
        });
      function end(): void {
        clearTimeout(limit);
        clearTimeout(grace);
        resolve(heard.toSorted((a, b) => asked.indexOf(a.endpoint) - asked.indexOf(b.endpoint)));
      }
    });
  }

  /** Whether the endpoint gave any answer that is one, be it a refusal. */
  function answered({ answers }: Testimony): boolean {
    return answers.some((each) => each.status === 'fulfilled' || judge.isDecisive(each.reason));
  }
}
