import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { loadEngine } from '../../../signer/engine/load.ts';
import {
  flipBit,
  freshId,
  type Holder,
  makeShares,
  type Party,
  play,
  SHARE_ROUNDS,
  type Tamper,
} from './engine-rounds.ts';

// Two of two: the rounds and their checks are those of any number of parties, at a third of the cost of three.
const PARTIES = [1, 2];

let original: Holder[];
let refreshed: Holder[];

type Kind = 'RefreshSession' | 'CompleteRefreshSession';

function open(holders: readonly Holder[], kind: Kind) {
  const sessionId = freshId();
  return holders.map((own) => ({ party: own.share.party, session: new own.engine[kind](own.share, sessionId) }));
}

/** What is true of a party whose session failed: it is over, and gives nothing. */
function expectDead({ session }: Party<ReturnType<typeof open>[number]['session']>): void {
  expect(session.state).toBe('dead');
  const refused = expect.objectContaining({ kind: 'input' });
  expect(() => session.step(Uint8Array.of(0))).toThrow(refused);
  expect(() => session.takeShare()).toThrow(refused);
}

function turnChainCode(bytes: Uint8Array, { share }: Holder): void {
  const at = Buffer.from(bytes).indexOf(share.chainCode);
  expect(at).toBeGreaterThan(0);
  bytes[at]! ^= 1;
}

/** A serialised share ends with its package: key (34 bytes), count, 2 × (party, public share of 34 bytes), 2 numbers. */
function replacePublicShare(bytes: Uint8Array): void {
  const key = bytes.subarray(-107, -73);
  bytes.set(key, bytes.length - 36);
}

beforeAll(async () => {
  const engine = await loadEngine('auto');
  const sessionId = freshId();
  const shares = await makeShares(
    PARTIES.map((party) => ({ party, session: new engine.DkgSession(party, 2, 2, sessionId) })),
  );
  original = shares.map((share) => ({ engine, share }));
  const next = await makeShares(open(original, 'RefreshSession'));
  refreshed = next.map((share) => ({ engine, share }));
}, 120_000);

describe.each<[Kind, number]>([
  ['RefreshSession', 2],
  ['CompleteRefreshSession', 1],
])('%s', (kind, numRuns) => {
  /** Plays to the end. @returns the parties that failed, which must be those that got a turned bit, at the least */
  async function playTurned(bitOf: (p: Parameters<Tamper>[0]) => number | null): Promise<number[]> {
    const parties = open(original, kind);
    const touched = new Set<number>();
    const tamper: Tamper = (p) => {
      const bit = bitOf(p);
      if (bit === null) return p.message.body;
      touched.add(p.receiver);
      return flipBit(p.message.body, bit);
    };
    const failed = await play(parties, { rounds: SHARE_ROUNDS, tamper });
    expect(touched.size).toBeGreaterThan(0);
    for (const party of touched) expect([...failed.keys()]).toContain(party);
    for (const fault of failed.values()) expect(['input', 'recoverable']).toContain(fault.kind);
    for (const party of parties) if (failed.has(party.party)) expectDead(party);
    return [...failed.keys()].sort();
  }

  // Party 1 gets what is meant for it alone with a bit turned, party 2 its copy of what is meant for all.
  const touches = ({ message, receiver }: Parameters<Tamper>[0]) => receiver === (message.to === 0 ? 2 : 1);

  it.each([1, 2, 3, 4])('fails where a bit of a message of round %i turns, and bans nobody', async (round) => {
    await fc.assert(
      fc.asyncProperty(fc.nat(), async (bit) => {
        const failed = await playTurned((p) => (p.round === round && touches(p) ? bit : null));
        // The last message has no answer: a party that got it sound is done.
        if (round < SHARE_ROUNDS) expect(failed).toEqual(PARTIES);
      }),
      { numRuns },
    );
  });

  it('gives nothing to parties that hold different epochs', async () => {
    const parties = open([original[0]!, refreshed[1]!], kind);
    const commitments: Uint8Array[] = [];
    const tamper: Tamper = ({ round, message }) => {
      if (round === 2 && message.to === 0) commitments.push(message.body);
      return message.body;
    };
    const failed = await play(parties, { rounds: SHARE_ROUNDS, tamper });
    // Before everybody has committed, nobody shows more than a header of 40 bytes and a digest.
    expect(commitments.map(({ length }) => length)).toEqual([72, 72]);
    expect([...failed.values()].map((fault) => fault.kind)).toEqual(['recoverable', 'recoverable']);
    parties.forEach(expectDead);
  });
});

describe.each<[Kind, string, (share: Uint8Array, own: Holder) => void]>([
  ['RefreshSession', 'chain code', turnChainCode],
  ['RefreshSession', 'public share of a party', replacePublicShare],
  ['CompleteRefreshSession', 'chain code', turnChainCode],
])('%s', (kind, what, change) => {
  it(`gives nothing to parties that know another ${what}`, async () => {
    const bytes = original[0]!.share.toBytes();
    change(bytes, original[0]!);
    const { engine } = original[0]!;
    const parties = open([{ engine, share: engine.KeyShare.fromBytes(bytes) }, original[1]!], kind);
    const failed = await play(parties, { rounds: SHARE_ROUNDS });
    expect([...failed.values()].map(({ kind: fault, message }) => [fault, message])).toEqual([
      ['recoverable', 'the refresh came out differently at party 2'],
      ['recoverable', 'the refresh came out differently at party 1'],
    ]);
  });
});

describe('CompleteRefreshSession', () => {
  /** Inside the nonce of the multiplication's set-up, which binds no proof: a difference would fail signatures, as fraud. */
  const NONCE_BYTE = 4800;

  it('compares also what two parties sent each other and no other check covers', async () => {
    const parties = open(original, 'CompleteRefreshSession');
    const tamper: Tamper = ({ round, message, receiver }) =>
      round === 3 && message.to === 1 && receiver === 1 ? flipBit(message.body, 8 * NONCE_BYTE) : message.body;
    const failed = await play(parties, { rounds: SHARE_ROUNDS, tamper });
    expect(new Map([...failed].map(([party, { message }]) => [party, message]))).toEqual(
      new Map([
        [1, 'the refresh came out differently at party 2'],
        [2, 'the refresh came out differently at party 1'],
      ]),
    );
    parties.forEach(expectDead);
  });
});
