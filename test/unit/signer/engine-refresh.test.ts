import { existsSync } from 'node:fs';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { decodeBatch, encodeBatch, type KeyShare, type ThresholdEngine } from '../../../signer/engine/engine.ts';
import { type EngineChoice, loadEngine } from '../../../signer/engine/load.ts';
import { type ShareJob, startShareWorker } from '../../../signer/engine/worker.ts';
import { flipBit, freshId, type Holder, play, SHARE_ROUNDS, sign, signersOfPairs } from './engine-rounds.ts';

const PARTIES = [1, 2, 3];
const CHILD = 'm/44/60/0/0/7';
const hasNative = existsSync(new URL('../../../signer/engine/pkg/threshold_engine.node', import.meta.url));
/** Both builds where both are, so that the parties differ in theirs. */
const builds: EngineChoice[] = hasNative ? ['native', 'wasm', 'native'] : ['wasm', 'wasm', 'wasm'];

let engines: ThresholdEngine[];
/** The first shares, those of a refresh, and those of a complete refresh after party 2 had lost its refreshed one. */
let original: Holder[];
let refreshed: Holder[];
let renewed: Holder[];
let hollow: KeyShare;

type Work =
  | { kind: 'keygen'; party: number; threshold: number; parties: number }
  | { kind: 'refresh' | 'complete-refresh'; share: Uint8Array };

/** Runs one job a party, each in a thread and with a build of its own. */
async function inThreads(work: (party: number) => Work): Promise<Holder[]> {
  const sessionId = freshId();
  const jobs = PARTIES.map((party): ShareJob => ({ build: builds[party - 1]!, sessionId, ...work(party) }));
  const workers = jobs.map((job, i) => ({ party: PARTIES[i]!, session: startShareWorker(job) }));
  try {
    const [failure] = (await play(workers, { rounds: SHARE_ROUNDS })).values();
    if (failure) throw failure;
    const shares = await Promise.all(workers.map(({ session }) => session.takeShare()));
    return shares.map((bytes, i) => ({ engine: engines[i]!, share: engines[i]!.KeyShare.fromBytes(bytes) }));
  } finally {
    await Promise.all(workers.map(({ session }) => session.close()));
  }
}

/** The messages of the helpers for `target`, as one batch. */
function termsOf(holders: readonly Holder[], p: { repairId: Uint8Array; target: number }): Uint8Array {
  const helpers = PARTIES.filter((party) => party !== p.target);
  const messages = helpers.map((helper) =>
    decodeBatch(holders[helper - 1]!.share.repairTerm(p.repairId, p.target, Uint8Array.from(helpers))),
  );
  return encodeBatch(messages.flat());
}

function repair(holders: readonly Holder[], target: number): KeyShare {
  const repairId = freshId();
  return engines[target - 1]!.KeyShare.assemble(repairId, target, termsOf(holders, { repairId, target }));
}

const publicSide = ({ party, threshold, parties, address, publicKey, chainCode }: KeyShare) => ({
  party,
  threshold,
  parties,
  address,
  publicKey: [...publicKey],
  chainCode: [...chainCode],
});
const childOf = ({ engine, share }: Holder): Holder => ({ engine, share: share.derive(CHILD) });

beforeAll(async () => {
  engines = await Promise.all(builds.map((build) => loadEngine(build)));
  original = await inThreads((party) => ({ kind: 'keygen', party, threshold: 2, parties: PARTIES.length }));
  refreshed = await inThreads((party) => ({ kind: 'refresh', share: original[party - 1]!.share.toBytes() }));
  hollow = repair(refreshed, 2);
  const held = refreshed.map(({ share }) => (share.party === 2 ? hollow : share));
  renewed = await inThreads((party) => ({ kind: 'complete-refresh', share: held[party - 1]!.toBytes() }));
}, 180_000);

describe.each([
  ['a refresh', () => ({ before: original, after: refreshed })],
  ['a complete refresh after a repair', () => ({ before: refreshed, after: renewed })],
])('%s', (_name, shares) => {
  it('keeps public key, chain code, and the addresses of children', () => {
    const { before, after } = shares();
    expect(after.map(({ share }) => publicSide(share))).toEqual(before.map(({ share }) => publicSide(share)));
    expect(after.map((holder) => childOf(holder).share.address)).toEqual(
      before.map((holder) => childOf(holder).share.address),
    );
  });

  it('gives every party another, whole share', () => {
    const { before, after } = shares();
    expect(after.map(({ share }) => share.isHollow)).toEqual([false, false, false]);
    for (const [i, { share }] of after.entries()) expect(share.toBytes()).not.toEqual(before[i]!.share.toBytes());
  });

  it('lets every pair sign, with the key and with a child', async () => {
    const { before, after } = shares();
    expect(await signersOfPairs(after)).toEqual([before[0]!.share.address]);
    expect(await signersOfPairs(after.map(childOf))).toEqual([childOf(before[0]!).share.address]);
  });

  it('leaves no pair of an old and a new share that signs, and bans nobody for it', async () => {
    const { before, after } = shares();
    for (const [a, b] of [
      [0, 2],
      [2, 0],
    ] as const) {
      const { failed, signatures } = await sign(before[a]!, after[b]!);
      expect(signatures).toEqual([]);
      expect([...failed.values()].map(({ kind }) => kind)).toEqual(['recoverable', 'recoverable']);
    }
  });
});

describe('what can be refreshed', () => {
  const sessions = ['RefreshSession', 'CompleteRefreshSession'] as const;

  it.each(sessions)('%s takes no child share', (name) => {
    const child = childOf(original[0]!);
    expect(() => new child.engine[name](child.share, freshId())).toThrow(/only a root share is refreshed/);
  });

  it.each(sessions)('%s takes no session id that is not 32 bytes long', (name) => {
    const { engine, share } = original[0]!;
    for (const length of [0, 31, 33]) {
      expect(() => new engine[name](share, new Uint8Array(length))).toThrow('session id must be 32 bytes');
    }
  });

  it('a refresh takes no hollow share', () => {
    expect(() => new engines[1]!.RefreshSession(hollow, freshId())).toThrow('a hollow share needs a complete refresh');
  });
});

describe('a repaired share', () => {
  it.each(PARTIES)('is the lost one of party %i, without what pairs of parties hold', (target) => {
    for (const holders of [original, refreshed, renewed]) {
      const lost = holders[target - 1]!.share;
      const share = repair(holders, target);
      expect(publicSide(share)).toEqual(publicSide(lost));
      expect([share.isHollow, lost.isHollow]).toEqual([true, false]);
      // Numbers, session id (33 bytes), secret (33) and public key (34) come first in a serialised share.
      expect(share.toBytes().subarray(0, 103)).toEqual(lost.toBytes().subarray(0, 103));
      expect(share.derive(CHILD).address).toBe(lost.derive(CHILD).address);
    }
  });

  it('is hollow again when it is read back', () => {
    const readBack = engines[1]!.KeyShare.fromBytes(hollow.toBytes());
    expect(readBack.isHollow).toBe(true);
    expect(readBack.toBytes()).toEqual(hollow.toBytes());
  });

  it('signs nothing, nor do its children, and helps no repair', () => {
    const { SignSession } = engines[1]!;
    for (const share of [hollow, hollow.derive(CHILD)]) {
      expect(() => new SignSession(share, freshId(), freshId(), Uint8Array.of(1))).toThrow(
        expect.objectContaining({ kind: 'input', message: 'a hollow share signs nothing before a complete refresh' }),
      );
    }
    expect(() => hollow.repairTerm(freshId(), 1, Uint8Array.of(2, 3))).toThrow(/hollow share helps no repair/);
  });
});

describe('what a repair refuses', () => {
  const repairId = freshId();
  const assemble = (terms: Uint8Array, p: { id?: Uint8Array; party?: number } = {}) =>
    engines[1]!.KeyShare.assemble(p.id ?? repairId, p.party ?? 2, terms);
  const fault = (kind: string, message: string) =>
    expect.objectContaining({ kind, message: expect.stringMatching(message) });
  const term = (holder: Holder, id = repairId) =>
    decodeBatch(holder.share.repairTerm(id, 2, Uint8Array.of(1, 3))).map(({ from, to, body }) => ({
      from,
      to,
      body,
    }))[0]!;

  it('another repair id, also of one helper only', () => {
    const mixed = [term(refreshed[0]!, freshId()), term(refreshed[2]!)];
    expect(() => assemble(encodeBatch(mixed))).toThrow(fault('input', 'wrong session id'));
    const relabelled = { ...mixed[0]!, body: Uint8Array.from(mixed[0]!.body) };
    relabelled.body.set(repairId, 8);
    expect(() => assemble(encodeBatch([relabelled, mixed[1]!]))).toThrow(fault('recoverable', 'do not match'));
  });

  it('terms for another party', () => {
    const terms = termsOf(refreshed, { repairId, target: 3 });
    expect(() => assemble(terms)).toThrow(fault('input', 'not for us'));
    expect(() => assemble(terms, { party: 1 })).toThrow(fault('input', 'message from self'));
  });

  it('too few terms, and a term twice', () => {
    const [one, other] = [term(refreshed[0]!), term(refreshed[2]!)];
    for (const few of [[], [one], [other]]) {
      expect(() => assemble(encodeBatch(few))).toThrow(fault('input', 'fewer repair terms|not enough'));
    }
    expect(() => assemble(encodeBatch([one, one]))).toThrow(fault('input', 'duplicate message'));
  });

  it('a term in the name of another helper', () => {
    const [one, other] = [term(refreshed[0]!), term(refreshed[2]!)];
    expect(() => assemble(encodeBatch([{ ...one, from: 3 }]))).toThrow(fault('input', 'authenticated route'));
    const forged = { ...one, from: 3, body: Uint8Array.from(one.body) };
    forged.body[6] = 3;
    expect(() => assemble(encodeBatch([forged]))).toThrow(fault('input', 'forged inner sender'));
    expect(() => assemble(encodeBatch([forged, other]))).toThrow(fault('input', 'duplicate message'));
  });

  it('helpers of different epochs: their packages differ', () => {
    const terms = [term(original[0]!), term(refreshed[2]!)];
    expect(() => assemble(encodeBatch(terms))).toThrow(fault('recoverable', 'different public key packages'));
  });

  it('a child share as a helper', () => {
    expect(() => childOf(refreshed[0]!).share.repairTerm(repairId, 2, Uint8Array.of(1, 3))).toThrow(
      fault('input', 'child shares'),
    );
  });

  it.each([
    ['the target among them', [1, 2]],
    ['a falling order', [3, 1]],
    ['itself not among them', [2, 3]],
    ['one only', [1]],
    ['one twice', [1, 1]],
    ['one that is none', [1, 4]],
    ['number 0', [0, 1]],
    ['none', []],
  ])('helpers with %s', (_what, helpers) => {
    const target = helpers.join() === '2,3' ? 1 : 2;
    expect(() => refreshed[0]!.share.repairTerm(repairId, target, Uint8Array.from(helpers))).toThrow(
      expect.objectContaining({ kind: 'input' }),
    );
  });

  it('a target or a party that is none', () => {
    for (const target of [0, 4, 1.5, 256, Number.NaN]) {
      const helpers = Uint8Array.of(1, 3);
      expect(() => refreshed[0]!.share.repairTerm(repairId, target, helpers)).toThrow(
        expect.objectContaining({ kind: 'input' }),
      );
      expect(() => assemble(termsOf(refreshed, { repairId, target: 2 }), { party: target })).toThrow(
        expect.objectContaining({ kind: 'input' }),
      );
    }
  });

  it('an id that is not 32 bytes long', () => {
    const short = new Uint8Array(31);
    expect(() => refreshed[0]!.share.repairTerm(short, 2, Uint8Array.of(1, 3))).toThrow('repair id must be 32 bytes');
    expect(() => assemble(encodeBatch([]), { id: short })).toThrow('repair id must be 32 bytes');
  });

  it('any bit of any term turned, and blames nobody for good', () => {
    const terms = [term(refreshed[0]!), term(refreshed[2]!)];
    fc.assert(
      fc.property(fc.nat({ max: 1 }), fc.nat({ max: 8 * terms[0]!.body.length - 1 }), (which, bit) => {
        const turned = terms.map((t, i) => (i === which ? { ...t, body: flipBit(t.body, bit) } : t));
        expect(() => assemble(encodeBatch(turned))).toThrow(
          expect.objectContaining({ kind: expect.stringMatching(/^(input|recoverable)$/) }),
        );
      }),
      { numRuns: 300 },
    );
  });
});

describe('the thread of a share job', () => {
  it('clears the share that it was given, and says so once it is closed', async () => {
    const share = original[0]!.share.toBytes();
    const worker = startShareWorker({ kind: 'refresh', build: 'wasm', sessionId: freshId(), share });
    try {
      expect(share).toEqual(new Uint8Array(share.length));
      expect(decodeBatch(await worker.start())).toHaveLength(2);
    } finally {
      await worker.close();
    }
    await expect(worker.start()).rejects.toThrow('the thread of the threshold engine ended: it was closed');
  });

  it.each(['refresh', 'complete-refresh'] as const)('reports a share that it cannot read: %s', async (kind) => {
    const share = Uint8Array.of(1, 2, 3);
    const worker = startShareWorker({ kind, build: 'wasm', sessionId: freshId(), share });
    await expect(worker.start()).rejects.toMatchObject({ kind: 'input', culprit: null });
    expect(share).toEqual(new Uint8Array(3));
  });

  it('refreshes a hollow share only completely', async () => {
    const [sessionId, share] = [freshId(), hollow.toBytes()];
    const worker = startShareWorker({ kind: 'refresh', build: 'wasm', sessionId, share });
    await expect(worker.start()).rejects.toMatchObject({
      kind: 'input',
      message: 'a hollow share needs a complete refresh',
    });
  });
});
