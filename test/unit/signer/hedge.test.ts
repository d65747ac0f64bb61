import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { NoAnswer, RefusedBySigner, type SignerPeer, type SignerTransport } from '../../../signer/call.ts';
import { SignerFault, SignerUnavailable, SignRefused } from '../../../signer/errors.ts';
import { createSignerHealthRecord, type Pair } from '../../../signer/health.ts';
import { type Attempt, tryPairs } from '../../../signer/hedge.ts';
import type { Party } from '../../../signer/parties.ts';
import type { RefusalCode } from '../../../signer/refusal.ts';

// Of the global one, which can be put under a clock of the test's own.
vi.mock('node:timers/promises', () => ({
  setTimeout: (ms: number, value: unknown, { signal }: { signal?: AbortSignal } = {}) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, ms, value);
      const stop = () => {
        clearTimeout(timer);
        reject(signal!.reason);
      };
      if (signal?.aborted) stop();
      else signal?.addEventListener('abort', stop, { once: true });
    }),
}));

const noAnswer = (party: Party) => new NoAnswer({ party, message: `signer ${party}: no answer` });
const refused = (party: Party, code: RefusalCode) =>
  new RefusedBySigner({ party, code, message: `${party} says ${code}`, culprit: null });

/** As the coordinator sorts them: about this signer, about the payment, about the protocol. */
function sort(error: unknown): NoAnswer | RefusedBySigner {
  if (error instanceof NoAnswer || (error instanceof RefusedBySigner && error.code === 'busy')) return error;
  if (error instanceof RefusedBySigner && error.code === 'intent_mismatch')
    throw new SignRefused({ reason: error.code, message: error.message, cause: error });
  throw new SignerFault({ message: (error as Error).message, cause: error });
}

/** What each signer does when it is called: answers after so long, or throws. */
type Behaviour = Record<Party, () => Promise<void>>;
const well = async () => undefined;
const slow = (ms: number) => () => delay(ms);
const throws = (error: Error) => async () => {
  throw error;
};

/** The first pair is 2 and 3: the record takes turns. An attempt asks both in turn, twice. */
function world(behaviour: Partial<Behaviour>, o: { signal?: AbortSignal } = {}) {
  const begun: string[] = [];
  const aborted: string[] = [];
  const signed: string[] = [];
  const known = createSignerHealthRecord({ now: () => new Date() });
  const record = {
    ...known,
    signed(pair: Pair) {
      signed.push(pair.join(''));
      known.signed(pair);
    },
  };
  const transport: SignerTransport = {
    async call<T>(peer: SignerPeer) {
      await (behaviour[peer.party] ?? well)();
      return {} as T;
    },
    health: well,
    close: () => undefined,
  };
  const attempt: Attempt<string> = async (pair, { transport: watched, signal }) => {
    const name = pair.join('');
    begun.push(name);
    signal.addEventListener('abort', () => aborted.push(name), { once: true });
    for (const party of [...pair, ...pair]) {
      const call = watched.call({ party } as SignerPeer, {
        path: '/v1/sign/step',
        session: '',
        body: {},
        timeoutMs: 1,
      });
      const gone = new Promise<never>((_, reject) =>
        signal.addEventListener('abort', () => reject(noAnswer(party)), { once: true }),
      );
      await Promise.race([call, gone]);
    }
    return name;
  };
  const start = () => tryPairs({ transport, record, attempt, sort, signal: o.signal ?? new AbortController().signal });
  const run = () => untilSettled(start());
  return { start, run, begun, aborted, signed, record };
}

/** Lets the clock go on until then. */
async function untilSettled<T>(running: Promise<T>): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  running.then(end, end);
  while (!isOver) await vi.advanceTimersByTimeAsync(10);
  return running;
}

async function timedRun(run: () => Promise<string>) {
  const since = performance.now();
  const by = await run();
  return { by, ms: performance.now() - since };
}

describe('trying pairs', () => {
  // Their clock stands while they work, so that no busy machine changes who is late.
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
    // No process begins anything at 0.
    vi.advanceTimersByTime(1);
  });
  afterEach(() => void vi.useRealTimers());

  it('takes the first that succeeds, and begins no other', async () => {
    const { run, begun, signed } = world({});
    expect(await run()).toBe('23');
    await vi.advanceTimersByTimeAsync(1_300);
    expect(begun).toEqual(['23']);
    expect(signed).toEqual(['23']);
  });

  it('begins the pair without the slow one after a second, keeps both, and calls off the one that is late', async () => {
    const { run, begun, aborted, record } = world({ 3: slow(60_000) });
    const { by, ms } = await timedRun(run);
    expect(by).toBe('12');
    expect(ms).toBeGreaterThan(950);
    expect(ms).toBeLessThan(1_050);
    expect(begun).toEqual(['23', '12']);
    expect(aborted).toContain('23');
    expect(record.suspicion([3, 1])).toBe(1);
    expect(await run()).toBe('12');
    expect(begun).toHaveLength(3);
  });

  it('takes the first pair’s result when it comes before the second’s', async () => {
    const { run, begun, aborted } = world({ 3: slow(600), 1: slow(1_000) });
    expect(await run()).toBe('23');
    expect(begun).toEqual(['23', '12']);
    expect(aborted).toContain('12');
  });

  it('blames whoever took longest of all its calls, not who happens to be asked at that moment', async () => {
    const delays = [10, 400]; // 2 is asked until 910, and 3 from then on, also when it is looked
    const { run, begun } = world({ 2: slow(450), 3: () => delay(delays.shift() ?? 0) });
    expect(await run()).toMatch(/23|31/);
    expect(begun).toEqual(['23', '31']);
  });

  it('blames also later, once it can be said who keeps the attempt waiting', async () => {
    const delays = [300, 300, 300, 60_000]; // 2, 3, 2, and then 3
    const next = () => delay(delays.shift() ?? 0);
    const { run, begun } = world({ 2: next, 3: next, 1: well });
    const { by, ms } = await timedRun(run);
    expect(by).toBe('12');
    expect(begun).toEqual(['23', '12']);
    expect(ms).toBeGreaterThan(2_000);
    expect(ms).toBeLessThan(2_500);
  });

  it('begins no other where the others are slow as well', async () => {
    const { run, begun, record } = world({ 2: slow(520), 3: slow(10) });
    record.failed(1);
    expect(await run()).toBe('23');
    expect(begun).toEqual(['23']);
    const both = world({ 2: slow(300), 3: slow(310) });
    expect(await both.run()).toBe('23');
    expect(both.begun).toEqual(['23']);
    expect(both.record.suspicion([2, 3])).toBe(0);
  });

  it('goes to the next pair at once after a failure, the one without whoever failed first', async () => {
    const { run, begun } = world({ 3: throws(noAnswer(3)) });
    const { by, ms } = await timedRun(run);
    expect(by).toBe('12');
    expect(ms).toBeLessThan(50);
    expect(begun).toEqual(['23', '12']);
  });

  it('blames nobody for an attempt that has ended', async () => {
    const { run, begun, record } = world({ 2: throws(refused(2, 'busy')), 3: slow(300), 1: slow(300) });
    expect(await run()).toBe('31');
    expect(begun).toEqual(['23', '31']);
    expect(record.suspicion([1, 2])).toBe(0);
  });

  it('says who could not, once all pairs have failed', async () => {
    const { run, begun } = world({ 3: throws(noAnswer(3)), 2: throws(refused(2, 'busy')) });
    const failing = run();
    await expect(failing).rejects.toThrow(SignerUnavailable);
    await expect(failing).rejects.toThrow('no two signers could sign: 2 says busy; signer 3: no answer');
    expect(begun).toHaveLength(3);
  });

  it('waits for the slow pair when the one beside it fails', async () => {
    const { run, begun } = world({ 3: slow(800), 1: throws(refused(1, 'busy')) });
    expect(await run()).toBe('23');
    expect(begun).toEqual(['23', '12']);
  });

  it('does not take one signer’s refusal for the end, but two', async () => {
    const alone = world({ 3: throws(refused(3, 'intent_mismatch')) });
    expect(await alone.run()).toBe('12');
    expect(alone.begun).toEqual(['23', '12']);
    expect(alone.record.suspicion([3, 1])).toBe(0);

    const both = world({ 3: throws(refused(3, 'intent_mismatch')), 2: throws(refused(2, 'intent_mismatch')) });
    const refusing = both.run();
    await expect(refusing).rejects.toThrow(SignRefused);
    await expect(refusing).rejects.toThrow('2 says intent_mismatch');

    const nobody = world({ 2: throws(refused(2, 'intent_mismatch')), 1: throws(noAnswer(1)) });
    const failing = nobody.run();
    await expect(failing).rejects.toThrow(SignerUnavailable);
    await expect(failing).rejects.toThrow('2 says intent_mismatch; signer 1: no answer');
  });

  it('ends at once with a fault, also while another pair is under way, which is called off', async () => {
    const { run, begun } = world({ 3: throws(refused(3, 'protocol_fault')) });
    await expect(run()).rejects.toThrow(SignerFault);
    expect(begun).toEqual(['23']);
    const late = world({ 3: slow(60_000), 1: throws(refused(1, 'protocol_fault')) });
    await expect(late.run()).rejects.toThrow(SignerFault);
    expect(late.begun).toEqual(['23', '12']);
    expect(late.aborted).toContain('23');
  });

  it('ends when it is told to, and begins nothing more', async () => {
    const ending = new AbortController();
    const { run, begun } = world({ 1: slow(60_000), 2: slow(60_000), 3: slow(60_000) }, { signal: ending.signal });
    setTimeout(() => ending.abort(), 1_500);
    const { ms } = await timedRun(() => run().catch((error: Error) => error.name));
    expect(ms).toBeLessThan(1_550);
    expect(begun).toEqual(['23', '31']);
  });
});

// In real time, for it is about a process that does not get any.
it('blames nobody for a pause of this process itself', async () => {
  const { start, begun, record } = world({ 3: slow(500) });
  const running = start();
  await delay(100);
  const until = performance.now() + 1_500;
  while (performance.now() < until);
  expect(await running).toBe('23');
  expect(begun).toEqual(['23']);
  expect(record.suspicion([2, 3])).toBe(0);
});
