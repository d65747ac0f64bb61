import { RpcUnavailable } from '../errors.ts';
import type { Judge } from './driver.ts';
import type { Endpoint } from './endpoint.ts';

/**
 * Asks one endpoint after the other until one gives a usable answer: the next at once when an error decides nothing or
 * when nothing was found, and as well when one takes longer than usual.
 * @param ready asked in this order
 * @param resting only the first of these is asked, and only when nobody else is left to ask
 * @param timeoutMs for all of it
 * @returns the answer; `null` when something is not to be found at any endpoint
 * @throws the error that says most
 */
export function raceEndpoints<Call>({
  ready,
  resting,
  judge,
  call,
  timeoutMs,
}: {
  ready: readonly Endpoint<Call>[];
  resting: readonly Endpoint<Call>[];
  judge: Judge;
  call: Call;
  timeoutMs: number;
}): Promise<unknown> {
  const waiting = [...ready];
  const spare = resting.slice(0, 1);
  let pending = 0;
  let isNowhere = false;
  let failure: unknown = new RpcUnavailable('No endpoint of the chain answered in time.');
  return new Promise((resolve, reject) => {
    let isOver = false;
    let hedge: NodeJS.Timeout | undefined;
    const limit = setTimeout(giveUp, timeoutMs);
    askNext();

    function askNext(): void {
      clearTimeout(hedge);
      const endpoint = waiting.shift() ?? (pending === 0 && !isNowhere ? spare.shift() : undefined);
      if (!endpoint) {
        if (pending === 0) giveUp();
        // Somebody said that it is not there, and whoever might know better takes long.
        else if (isNowhere) hedge = setTimeout(giveUp, Math.max(...ready.map((each) => each.patienceMs())));
        return;
      }
      pending += 1;
      hedge = setTimeout(askAsWell, endpoint.patienceMs());
      endpoint.ask(call).then(
        (answer) => settle(() => (answer === null ? findNothing() : end(() => resolve(answer)))),
        (error: unknown) => settle(() => fail(error)),
      );
    }

    function askAsWell(): void {
      if (waiting.length > 0 || isNowhere) askNext();
    }

    function settle(act: () => void): void {
      pending -= 1;
      if (!isOver) act();
    }

    function findNothing(): void {
      isNowhere = true;
      askNext();
    }

    function fail(error: unknown): void {
      failure = judge.mostTelling([failure, error]);
      if (judge.isDecisive(error)) end(() => reject(error));
      else askNext();
    }

    function giveUp(): void {
      end(() => (isNowhere ? resolve(null) : reject(failure)));
    }

    function end(act: () => void): void {
      isOver = true;
      clearTimeout(hedge);
      clearTimeout(limit);
      act();
    }
  });
}
