import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { NoAnswer, RefusedBySigner } from '../../../signer/call.ts';
import { coordinateKeygen } from '../../../signer/coordinate-keygen.ts';
import { coordinateRefresh } from '../../../signer/coordinate-refresh.ts';
import { KEYGEN_ROUNDS, PARTIES, REFRESH_ROUNDS } from '../../../signer/parties.ts';
import { cheatIn, deepPlan, type Memory, type Plan, remembering, tricks } from '../../support/cheats.ts';
import { describeOutcome, type HostedRuns, startRuns } from '../../support/hosted-runs.ts';
import { type HostedSigners, hostSigners } from '../../support/hosted-signers.ts';
import { type Cheat, type HostileSigner, makeHostile } from '../../support/hostile-signer.ts';

// Keys and their refreshes are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const HOSTILE = 1;
const HONEST = [2, 3] as const;
/** They cost seconds, so there are few of each. */
const CHEATS = { refresh: 20, 'complete refresh': 3, 'key generation': 4 };
const CALL_TIMEOUT_MS = 60_000;

let signers: HostedSigners;
let hostile: HostileSigner;
let runs: HostedRuns;
let keys = 0;
const memory: Memory = new Map();
const storeOf = (party: 1 | 2 | 3) => signers.signer(party).context.store;
const reach = () => ({
  peers: PARTIES.map(signers.peer),
  timeoutMs: CALL_TIMEOUT_MS,
  signal: AbortSignal.timeout(2 * CALL_TIMEOUT_MS),
});

beforeAll(async () => {
  signers = await hostSigners();
  hostile = await makeHostile(signers.signer(HOSTILE).context, signers.transport);
  hostile.cheat = remembering(memory);
  runs = await startRuns(signers, hostile.transport);
  await coordinateRefresh(hostile.transport, { ...reach(), keyId: runs.key.keyId });
});
afterEach(() => {
  for (const party of HONEST) storeOf(party).liftBan({ keyId: runs.key.keyId, party: HOSTILE });
});
afterAll(async () => {
  await signers?.stop();
  runs?.printTable();
});

/** Cheats towards one of the two, or towards both alike. */
const anyCheat = (rounds: number) =>
  fc.record({
    plan: deepPlan,
    round: fc.integer({ min: 1, max: rounds }),
    only: fc.constantFrom(undefined, ...HONEST),
  });

function cheatTowards(p: { plan: Plan; round: number; only: 2 | 3 | undefined }): Cheat {
  const cheat = cheatIn(p.round, { plan: p.plan, memory });
  return (sent) => (p.only === undefined || sent.context.to === p.only ? cheat(sent) : sent.seal(sent));
}

/** What must be true of the end of any run in which signer 1 cheated. @returns whether it came out well all the same */
async function judge(p: { what: string; plan: Plan; round: number; run: Promise<object>; keyId: string }) {
  const error: unknown = await p.run.then(
    () => undefined,
    (reason) => reason,
  );
  const bans = HONEST.flatMap((party) => storeOf(party).listBans()).filter(({ keyId }) => keyId === p.keyId);
  const how = error === undefined ? 'done' : describeOutcome({ session: '', error });
  runs.note(`${p.what}\t${p.round}\t${p.plan.trick}\t${how}${bans.length > 0 ? ', ban' : ''}`);
  expect(signers.broken).toEqual([]);
  for (const { party } of bans) expect(party).toBe(HOSTILE);
  if (tricks[p.plan.trick].layer === 'envelope') expect(bans).toEqual([]);
  if (error === undefined) return true;
  // What is too large is not taken by the one, and not sent by the other.
  if (error instanceof NoAnswer) expect(p.plan.trick).toMatch(/too large|as large as/);
  else expect(error).toMatchObject({ name: 'RefusedBySigner' });
  // What the cheat itself says of such a run counts for nothing: its engine does not know that it cheats.
  if (error instanceof RefusedBySigner && error.party !== HOSTILE) {
    expect([null, HOSTILE]).toContain(error.culprit);
    expect(['bad_message', 'protocol_fault', 'oversize']).toContain(error.code);
  }
  return false;
}

const open = (kind: 'keygen' | 'refresh') => () =>
  PARTIES.map((party) => signers.signer(party).context.sessions.count(kind));

describe('a signer that cheats', () => {
  it.each([
    { what: 'refresh', complete: false },
    { what: 'complete refresh', complete: true },
  ] as const)(
    'in a $what leaves the key as it was, and only it is blamed',
    async ({ what, complete }) => {
      const { keyId } = runs.key;
      await fc.assert(
        fc.asyncProperty(anyCheat(REFRESH_ROUNDS), async ({ plan, round, only }) => {
          const before = storeOf(2).activeEpochs(keyId);
          hostile.cheat = cheatTowards({ plan, round, only });
          const run = coordinateRefresh(hostile.transport, { ...reach(), keyId, complete });
          const isDone = await judge({ what, plan, round, run, keyId });
          hostile.cheat = undefined;
          await expect.poll(open('refresh')).toEqual([0, 0, 0]);
          if (!isDone) for (const party of PARTIES) expect(storeOf(party).activeEpochs(keyId)).toEqual(before);
          expect(describeOutcome(await runs.sign([2, 3], await runs.freshRequest()))).toBe('signed');
          for (const party of HONEST) {
            const isBanned = storeOf(party).isBanned({ keyId, party: HOSTILE });
            const outcome = await runs.sign([HOSTILE, party], await runs.freshRequest());
            expect(describeOutcome(outcome)).toBe(isBanned ? 'banned_pair, blames nobody' : 'signed');
            storeOf(party).liftBan({ keyId, party: HOSTILE });
          }
        }),
        { numRuns: CHEATS[what], endOnFailure: true },
      );
      const after = await coordinateRefresh(hostile.transport, { ...reach(), keyId });
      expect(after.outcome).toMatch(/refreshed|completed/);
      for (const party of PARTIES) expect(storeOf(party).activeEpochs(keyId)).toEqual([after.epoch]);
      expect(describeOutcome(await runs.sign([3, HOSTILE], await runs.freshRequest()))).toBe('signed');
    },
    400_000,
  );

  it('in a key generation makes no key of it, and only it is blamed', async () => {
    await fc.assert(
      fc.asyncProperty(anyCheat(KEYGEN_ROUNDS), async ({ plan, round, only }) => {
        const keyId = `ckey_cheated_${++keys}`;
        hostile.cheat = cheatTowards({ plan, round, only });
        const isDone = await judge({
          what: 'key generation',
          plan,
          round,
          run: coordinateKeygen(hostile.transport, { ...reach(), keyId }),
          keyId,
        });
        await expect.poll(open('keygen')).toEqual([0, 0, 0]);
        if (isDone) return;
        for (const party of HONEST) {
          await expect.poll(() => storeOf(party).stateOf(keyId)).toBe('abandoned');
          expect(() => storeOf(party).getShare(keyId)).toThrow(expect.objectContaining({ code: 'unknown_key' }));
        }
      }),
      { numRuns: CHEATS['key generation'], endOnFailure: true },
    );
  }, 400_000);
});
