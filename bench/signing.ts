import { existsSync } from 'node:fs';
import type { Progress } from '../dev/progress.ts';
import { newId } from '../shared/ids.ts';
import { createEngineFloor } from './engine-floor.ts';
import { inParallel, type Throughput } from './parallel.ts';
import { createPaymentRequests } from './payment-requests.ts';
import type { MeasuredPart, Ratio } from './report.ts';
import { interleave, type Summary, summarise, timed } from './samples.ts';
import { type BenchSigners, withSigners } from './with-signers.ts';

/** What the signers and the way through them may cost, in bare signatures. */
const overheadAim = 1;
/** Signatures that are asked for at the same time. */
const widths = [1, 2, 4, 8, 16];
/** Wallets of the account key whose shares are refreshed: they are not counted one by one, a refresh is of the key. */
const walletsOfKey = 1_000;
/** What many refreshes are extrapolated to. */
const refreshesOfInterest = 1_000;
const chain = 'eip155:31337';
const nativeEngine = new URL('../signer/engine/pkg/threshold_engine.node', import.meta.url);

/** How much is measured, of each build of the engine. */
interface SigningPlan {
  readonly rounds: number;
  readonly warmUpRounds: number;
  /** Signatures of each run with several at a time. */
  readonly parallel: number;
  readonly refreshes: number;
  readonly limitMs: number;
}

export const fullSigningPlan: SigningPlan = {
  rounds: 300,
  warmUpRounds: 20,
  parallel: 320,
  refreshes: 100,
  limitMs: 180_000,
};
export const quickSigningPlan: SigningPlan = {
  rounds: 40,
  warmUpRounds: 5,
  parallel: 64,
  refreshes: 10,
  limitMs: 30_000,
};

interface Context {
  readonly plan: SigningPlan;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

/** Signatures and refreshes by three signer processes beside the mere computation, by each build of the engine. */
export async function measureSigning(context: Context): Promise<MeasuredPart> {
  const builds = existsSync(nativeEngine) ? (['wasm', 'native'] as const) : (['wasm'] as const);
  const parts: MeasuredPart[] = [];
  for (const build of builds)
    parts.push(await withSigners({ engine: build }, (signers) => measureBuild(signers, build, context)));
  return {
    durations: new Map(parts.flatMap(({ durations }) => [...durations])),
    throughput: new Map(parts.flatMap(({ throughput }) => [...throughput])),
    ratios: parts.flatMap(({ ratios }) => ratios),
  };
}

async function measureBuild(
  signers: BenchSigners,
  build: 'wasm' | 'native',
  { plan, progress, signal }: Context,
): Promise<MeasuredPart> {
  const names = {
    bare: `${build}: bare signature, one process`,
    signature: `${build}: signature, 3 signers`,
    frozen: `${build}: signature, 8 at once, a signer freezes`,
    refresh: `${build}: refresh of a key of ${walletsOfKey} wallets`,
    complete: `${build}: complete refresh`,
    parallel: (width: number) => `${build}: signature, ${width} at once`,
  };
  const durations = new Map<string, Summary>();
  const throughput = new Map<string, Throughput>();

  const floor = await progress.step(`${build}: key of the floor`, () => createEngineFloor({ engine: build }));
  const keyId = newId('ckey');
  const key = await progress.step(`${build}: key`, () => signers.client.generateKey({ keyId }));
  const payments = (index: number) =>
    createPaymentRequests(
      { ...key, keyId, path: `m/44/60/0/0/${index}`, accountId: newId('acct'), chain },
      signers.policyKey,
    );
  const nextRequest = payments(0);
  const signMs = async (next = nextRequest) => {
    const request = await next();
    return timed(() => signers.client.sign(request));
  };

  const alone = await progress.step(`${build}: one at a time, the floor in turn`, () =>
    interleave(
      [async () => ({ [names.bare]: await floor.signMs() }), async () => ({ [names.signature]: await signMs() })],
      { warmUp: plan.warmUpRounds, rounds: plan.rounds, limitMs: plan.limitMs, signal },
    ),
  );
  for (const [name, values] of alone) durations.set(name, summarise(values));

  const atOnce = async (name: string, width: number, onDone?: (done: number) => void) => {
    const took: number[] = [];
    const run = async () => {
      took.push(await signMs());
      onDone?.(took.length);
    };
    const bounds = { width, total: plan.parallel, limitMs: plan.limitMs, signal };
    throughput.set(name, await progress.step(name, () => inParallel(run, bounds)));
    durations.set(name, summarise(took));
  };
  for (const width of widths) await atOnce(names.parallel(width), width);

  const freezing = signers.processes[1]!;
  try {
    await atOnce(names.frozen, 8, (done) => {
      if (done === 8) process.kill(freezing.pid, 'SIGSTOP');
    });
  } finally {
    process.kill(freezing.pid, 'SIGCONT');
  }

  const refreshes = await progress.step(names.refresh, () =>
    interleave([async () => ({ [names.refresh]: await timed(() => signers.client.refreshKey({ keyId })) })], {
      ...{ warmUp: 1, rounds: plan.refreshes, limitMs: plan.limitMs, signal },
    }),
  );
  const complete = await progress.step(names.complete, () =>
    interleave(
      [async () => ({ [names.complete]: await timed(() => signers.client.refreshKey({ keyId, complete: true })) })],
      { warmUp: 0, rounds: Math.ceil(plan.refreshes / 20), limitMs: plan.limitMs, signal },
    ),
  );
  for (const [name, values] of [...refreshes, ...complete]) durations.set(name, summarise(values));
  // The wallets are the same ones: each signs as its address says, or this throws.
  for (const index of [0, 1, walletsOfKey - 1]) await signMs(payments(index + 1));
  return { durations, throughput, ratios: ratios({ build, names, durations, refreshes }) };
}

function ratios(p: {
  build: string;
  names: { bare: string; signature: string; refresh: string };
  durations: ReadonlyMap<string, Summary>;
  refreshes: ReadonlyMap<string, readonly number[]>;
}): Ratio[] {
  const p50 = (name: string) => p.durations.get(name)!.p50;
  const overhead = p50(p.names.signature) / p50(p.names.bare) - 1;
  const took = p.refreshes.get(p.names.refresh)!;
  const sumMs = took.reduce((sum, ms) => sum + ms, 0);
  return [
    {
      name: `${p.build}: what the signers add to a bare signature / a bare signature`,
      value: overhead,
      aim: overheadAim,
      isMet: overhead <= overheadAim,
    },
    {
      name: `${p.build}: seconds of ${refreshesOfInterest} refreshes, extrapolated from ${took.length}`,
      value: ((sumMs / took.length) * refreshesOfInterest) / 1000,
    },
  ];
}
