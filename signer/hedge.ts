import { setTimeout as delay } from 'node:timers/promises';
import { NoAnswer, RefusedBySigner, type SignerTransport } from './call.ts';
import { SignerUnavailable, SignRefused } from './errors.ts';
import type { Pair, SignerHealthRecord } from './health.ts';
import type { Party } from './parties.ts';

/** A whole attempt takes some tens of milliseconds; one that takes this long may get another beside it. */
const HEDGE_AFTER_MS = 1_000;
/** Time is counted in such steps, see {@link waitAwake}. */
const STEP_MS = 100;
/** A signer is to blame that was waited for so many times as long as its partner: a busy machine slows down both. */
const BLAME_RATIO = 3;
/** What so many refuse, no pair can sign. */
const REFUSALS_FINAL = 2;

/** One try by one pair. It makes its calls by the transport that it is given, so that it is seen who keeps it waiting. */
export type Attempt<T> = (pair: Pair, o: { transport: SignerTransport; signal: AbortSignal }) => Promise<T>;

/**
 * Has one pair after another try until one succeeds. An attempt that one signer keeps waiting goes on, and the pair
 * without that one begins beside it. Where both are slow, or the others are known to be, nobody begins: on a busy machine
 * more work would help nobody. The first result counts; what is still under way then is called off.
 *
 * One signer's refusal of the payment does not end it: one that was taken over, or has lost its store, would refuse
 * everything. Two do.
 * @param p.signal ends everything
 * @param p.sort returns what is only one signer's trouble, throws what ends the whole (SignRefused for a refusal)
 * @throws SignerUnavailable, SignRefused, and what `sort` throws
 */
export async function tryPairs<T>(p: {
  transport: SignerTransport;
  record: SignerHealthRecord;
  attempt: Attempt<T>;
  sort: (error: unknown) => NoAnswer | RefusedBySigner;
  signal: AbortSignal;
}): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const over = new AbortController();
  const signal = AbortSignal.any([p.signal, over.signal]);
  const untried = p.record.pairs();
  const failures = new Map<Party, string>();
  const refusals = new Map<Party, SignRefused>();
  let underWay = 0;

  const trouble = (pair: Pair) => p.record.suspicion(pair) + pair.filter((party) => refusals.has(party)).length;
  function startNext({ onlyWithoutTrouble }: { onlyWithoutTrouble: boolean }): void {
    untried.sort((a, b) => trouble(a) - trouble(b));
    const isWanted = untried.length > 0 && !signal.aborted && !(onlyWithoutTrouble && trouble(untried[0]!) > 0);
    if (isWanted) void start(untried.shift()!);
  }
  async function start(pair: Pair): Promise<void> {
    underWay += 1;
    const calls = watchCalls(p.transport);
    const ended = new AbortController();
    void findLate(calls, AbortSignal.any([signal, ended.signal])).then(takeLate, () => undefined);
    try {
      resolve(await p.attempt(pair, { transport: calls.transport, signal }));
      p.record.signed(pair);
    } catch (error) {
      underWay -= 1;
      const final = takeFailure(error);
      if (!final && underWay === 0) startNext({ onlyWithoutTrouble: false });
      if (final || underWay === 0) reject(final ?? unavailable(failures));
    } finally {
      ended.abort();
    }
  }
  function takeLate(party: Party): void {
    p.record.late(party);
    startNext({ onlyWithoutTrouble: true });
  }
  /** @returns what ends the whole, if this does */
  function takeFailure(error: unknown): unknown {
    if (over.signal.aborted) return error;
    try {
      const failure = p.sort(error);
      failures.set(failure.party, failure.message);
      if (failure instanceof NoAnswer) p.record.failed(failure.party);
    } catch (sorted) {
      if (!(sorted instanceof SignRefused && sorted.cause instanceof RefusedBySigner)) return sorted;
      refusals.set(sorted.cause.party, sorted);
      failures.set(sorted.cause.party, sorted.message);
      if (refusals.size >= REFUSALS_FINAL) return [...refusals.values()][0];
    }
    return undefined;
  }

  startNext({ onlyWithoutTrouble: false });
  return promise.finally(() => over.abort());
}

function unavailable(failures: ReadonlyMap<Party, string>): SignerUnavailable {
  return new SignerUnavailable(`no two signers could sign: ${[...failures.values()].join('; ')}`);
}

interface WatchedCalls {
  transport: SignerTransport;
  /** Who was waited for much longer than the other, if that can be said of one. */
  slow(): Party | undefined;
}

/** The same transport, which remembers how long each signer was waited for. */
function watchCalls(transport: SignerTransport): WatchedCalls {
  const waitedMs = new Map<Party, number>();
  const addWaited = (party: Party, ms: number) => waitedMs.set(party, (waitedMs.get(party) ?? 0) + ms);
  const call: SignerTransport['call'] = async (peer, request) => {
    addWaited(peer.party, -performance.now());
    try {
      return await transport.call(peer, request);
    } finally {
      addWaited(peer.party, performance.now());
    }
  };
  // Who is being waited for now has a start without an end in its sum.
  const total = (ms: number) => (ms < 0 ? ms + performance.now() : ms);
  return {
    transport: { ...transport, call },
    slow() {
      const [most, next] = [...waitedMs].toSorted(([, a], [, b]) => total(b) - total(a));
      const isSlow = most && total(most[1]) >= BLAME_RATIO * (next ? total(next[1]) : 0);
      return isSlow ? most[0] : undefined;
    },
  };
}

/** Resolves with who keeps an attempt waiting, from when it has taken long. @throws once it has ended */
async function findLate(calls: WatchedCalls, ended: AbortSignal): Promise<Party> {
  await waitAwake(HEDGE_AFTER_MS, ended);
  for (;;) {
    const late = calls.slow();
    if (late !== undefined) return late;
    await waitAwake(STEP_MS, ended);
  }
}

/**
 * Waits in small steps, so that a pause of this process itself counts little: the answers that came meanwhile are read
 * between the steps, and nobody looks late for it.
 */
async function waitAwake(ms: number, signal: AbortSignal): Promise<void> {
  for (let step = 0; step < ms / STEP_MS; step += 1) await delay(STEP_MS, undefined, { signal });
}
