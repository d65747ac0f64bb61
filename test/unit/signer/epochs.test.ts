import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SignerContext } from '../../../signer/context.ts';
import { attestEpoch, commitEpoch, finishEpoch, type KeyEpochs, refuseEpoch } from '../../../signer/epoch.ts';
import {
  loadSignerIdentity,
  type PeerIdentity,
  parsePublicIdentity,
  type SignerIdentity,
} from '../../../signer/identity.ts';
import { initSecrets } from '../../../signer/init.ts';
import { createKek, createKeyEncryption } from '../../../signer/kek.ts';
import { newSession } from '../../../signer/new-session.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import { commonEpoch, planRefresh } from '../../../signer/plan-refresh.ts';
import { Refusal } from '../../../signer/refusal.ts';
import type { Epoch } from '../../../signer/store/epochs.ts';
import { openSignerStore } from '../../../signer/store.ts';

const publicKey = randomBytes(65);
const chainCode = randomBytes(32);

describe('what is to be done about the shares of a key', () => {
  const epoch = (number: number, state: Epoch['state'] = 'active', more: Partial<Epoch> = {}): Epoch => ({
    epoch: number,
    state,
    complete: false,
    sessionId: `run of ${number}`,
    createdAtMs: 1_000,
    ...more,
  });
  const plan = (held: Epoch[][], p: { complete?: boolean; olderThanMs?: number } = {}) =>
    planRefresh(
      new Map(
        PARTIES.map((party, i): [Party, KeyEpochs] => [party, { epochs: held[i]!, hasRecords: true, banned: [] }]),
      ),
      { complete: false, olderThanMs: undefined, ...p },
    );
  const all = (epochs: Epoch[]) => [epochs, epochs, epochs];

  it.each([
    ['one epoch everywhere', all([epoch(1)]), { kind: 'run', fromEpoch: 1, toEpoch: 2 }],
    ['stored by all', all([epoch(1), epoch(2, 'stored')]), { kind: 'complete', epoch: 2, isComplete: false }],
    [
      'used by one',
      [
        [epoch(1), epoch(2)],
        [epoch(1), epoch(2, 'stored')],
        [epoch(1), epoch(2, 'stored')],
      ],
      { kind: 'complete', epoch: 2, isComplete: false },
    ],
    [
      'erased by one',
      [[epoch(2)], [epoch(1), epoch(2)], [epoch(1), epoch(2)]],
      { kind: 'complete', epoch: 2, isComplete: false },
    ],
    [
      'stored by two',
      [[epoch(1), epoch(2, 'stored')], [epoch(1), epoch(2, 'stored')], [epoch(1)]],
      { kind: 'run', fromEpoch: 1, toEpoch: 2 },
    ],
    [
      'two runs under one number',
      [
        [epoch(1), epoch(2, 'stored')],
        [epoch(1), epoch(2, 'stored', { sessionId: 'other' })],
        [epoch(1), epoch(2, 'stored')],
      ],
      { kind: 'run', fromEpoch: 1, toEpoch: 2 },
    ],
    [
      'used by one, dropped by another',
      [[epoch(1), epoch(2)], [epoch(1)], [epoch(1), epoch(2, 'stored')]],
      { kind: 'run', fromEpoch: 1, toEpoch: 3 },
    ],
    ['lost by one', [[epoch(3)], [], [epoch(3)]], { kind: 'repair', parties: [2] }],
    ['old at one', [[epoch(3)], [epoch(3)], [epoch(2)]], { kind: 'repair', parties: [3] }],
    ['lost by two', [[epoch(3)], [], []], { kind: 'repair', parties: [] }],
    ['lost by all', all([]), { kind: 'unknown' }],
  ])('%s', (_, held, expected) => {
    expect(plan(held as Epoch[][])).toEqual(expected);
  });

  it('nothing where it is new enough at all three, and complete where that is asked', () => {
    const current = { kind: 'current', epoch: 1 };
    const run = { kind: 'run', fromEpoch: 1, toEpoch: 2 };
    expect(plan(all([epoch(1)]), { olderThanMs: 1_000 })).toEqual(current);
    expect(plan(all([epoch(1)]), { olderThanMs: 1_001 })).toEqual(run);
    expect(plan([[epoch(1)], [epoch(1)], [epoch(1, 'active', { createdAtMs: 999 })]], { olderThanMs: 1_000 })).toEqual(
      run,
    );
    expect(plan(all([epoch(1)]), { olderThanMs: 1_000, complete: true })).toEqual(run);
    const complete = all([epoch(1, 'active', { complete: true })]);
    expect(plan(complete, { olderThanMs: 1_000, complete: true })).toEqual(current);
  });
});

/** What a coordinator that is nobody's friend may do next, in any order. */
type Move =
  /** From one of the epochs that a party uses, to a number about its newest. */
  | { kind: 'run'; party: Party; pick: number; ahead: number; storedBy: readonly Party[] }
  | { kind: 'commit' | 'finish'; party: Party; said: number };

describe('three signers and any coordinator', () => {
  const keyId = 'k';
  const home = mkdtempSync(join(tmpdir(), 'purser-epochs-'));
  const identities = new Map<Party, SignerIdentity>();
  const publics = new Map<Party, PeerIdentity>();

  beforeAll(async () => {
    for (const party of PARTIES) {
      const made = await initSecrets({ kind: 'signer', dir: join(home, `${party}`) });
      identities.set(party, await loadSignerIdentity(made.identityFile));
      publics.set(party, await parsePublicIdentity(made.publicKey));
    }
  });
  afterAll(() => rmSync(home, { recursive: true, force: true }));

  /** The stores, identities and operations are real; no share is computed, each is a few bytes. */
  function makeSigners(): { contexts: SignerContext[]; close: () => void } {
    const dir = mkdtempSync(join(home, 'stores-'));
    const contexts = PARTIES.map((party) => {
      const store = openSignerStore({
        dataDir: join(dir, `${party}`),
        party,
        engineVersion: 'v1',
        keyEncryption: createKeyEncryption([createKek(randomBytes(32))]),
        now: () => new Date(),
      });
      store.reserveKey({ keyId, sessionId: 'first' });
      store.putShare({ keyId, share: Uint8Array.of(1), publicKey, chainCode });
      store.activateKey(keyId);
      return {
        party,
        identity: identities.get(party)!,
        peers: publics,
        store,
        backup: { keep: async () => undefined, changed: () => undefined },
        shares: { forget: () => undefined },
        log: { info: () => undefined },
        now: () => new Date(),
      } as unknown as SignerContext;
    });
    return {
      contexts,
      close() {
        for (const { store } of contexts) store.close();
        rmSync(dir, { recursive: true });
      },
    };
  }

  const held = (contexts: readonly SignerContext[]) => contexts.map(({ store }) => store.epochsOf(keyId));

  /** Stores what a run made at some of them, as the last step does. */
  async function run(contexts: readonly SignerContext[], p: { from: number; to: number; storedBy: readonly Party[] }) {
    const sessionId = newSession();
    const mayBegin = contexts.every((context) => {
      if (!context.store.activeEpochs(keyId).includes(p.from)) return false;
      return isAllowed(() => refuseEpoch(context, { keyId, toEpoch: p.to }));
    });
    if (!mayBegin) return undefined;
    const said: { party: Party; attestation: string }[] = [];
    for (const context of contexts.filter(({ party }) => p.storedBy.includes(party))) {
      const made = { complete: false, sessionId, atMs: Date.now(), share: Uint8Array.of(2), publicKey, chainCode };
      context.store.putEpoch({ keyId, epoch: p.to, ...made });
      const attestation = await attestEpoch(context, { state: 'stored', keyId, epoch: p.to });
      said.push({ party: context.party, attestation });
    }
    return { epoch: p.to, said };
  }

  function isAllowed(work: () => void): boolean {
    try {
      work();
      return true;
    } catch (error) {
      if (error instanceof Refusal) return false;
      throw error;
    }
  }
  const refusedOr = <T>(work: Promise<T>): Promise<T | undefined> =>
    work.catch((error: unknown) => {
      if (error instanceof Refusal) return undefined;
      throw error;
    });

  const party = fc.constantFrom(...PARTIES);
  const move: fc.Arbitrary<Move> = fc.oneof(
    fc.record({
      kind: fc.constant('run' as const),
      party,
      pick: fc.nat(3),
      ahead: fc.integer({ min: 0, max: 2 }),
      storedBy: fc.oneof(fc.constant<Party[]>([...PARTIES]), fc.subarray<Party>([...PARTIES])),
    }),
    fc.record({ kind: fc.constantFrom('commit' as const, 'finish' as const), party, said: fc.nat(2) }),
  );

  it('have an epoch in common at every moment, and an honest coordinator leads them to one', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(move, { minLength: 4, maxLength: 24 }), async (moves) => {
        const { contexts, close } = makeSigners();
        const at = (p: Party) => contexts[p - 1]!;
        /** All attestations that were ever given, by epoch and run; the coordinator keeps them. */
        const stored: { epoch: number; said: { party: Party; attestation: string }[] }[] = [];
        const switched: typeof stored = [];
        const commit = async (p: Party, one: (typeof stored)[number]) => {
          const body = { keyId, epoch: one.epoch, attestations: one.said };
          const answer = await refusedOr(commitEpoch(at(p), { body }));
          if (answer) note(switched, one, { party: p, ...answer });
        };
        const note = (
          list: typeof stored,
          of: (typeof stored)[number],
          said: (typeof stored)[number]['said'][number],
        ) => {
          const key = stored.indexOf(of);
          list[key] ??= { epoch: of.epoch, said: [] };
          list[key].said = [...list[key].said.filter((one) => one.party !== said.party), said];
        };
        try {
          for (const one of moves) {
            if (one.kind === 'run') {
              const active = at(one.party).store.activeEpochs(keyId);
              const from = active[one.pick % active.length]!;
              const made = await run(contexts, { ...one, from, to: active[0]! + one.ahead });
              if (made) stored.push(made);
            } else if (stored.length > 0) {
              const index = Math.max(0, stored.length - 1 - one.said); // mostly of late
              if (one.kind === 'commit') await commit(one.party, stored[index]!);
              else if (switched[index]) {
                const body = { keyId, epoch: switched[index].epoch, attestations: switched[index].said };
                await refusedOr(finishEpoch(at(one.party), { body }));
              }
            }
            expect(commonEpoch(held(contexts))).toBeDefined();
          }
          for (let i = 0; i < 3; i++) await refreshHonestly(contexts);
          const [first, ...others] = held(contexts);
          expect(first).toHaveLength(1);
          for (const other of others) expect(other).toMatchObject([{ epoch: first![0]!.epoch, state: 'active' }]);
        } finally {
          close();
        }
      }),
      { numRuns: 40, endOnFailure: true },
    );
  }, 180_000);

  async function refreshHonestly(contexts: readonly SignerContext[]): Promise<void> {
    const found = new Map(
      contexts.map(({ party, store }): [Party, KeyEpochs] => [
        party,
        { epochs: store.epochsOf(keyId), hasRecords: true, banned: [] },
      ]),
    );
    const plan = planRefresh(found, { complete: false, olderThanMs: undefined });
    if (plan.kind !== 'run' && plan.kind !== 'complete') throw new Error(`nothing to do: ${plan.kind}`);
    const epoch = plan.kind === 'run' ? plan.toEpoch : plan.epoch;
    if (plan.kind === 'run') {
      const made = await run(contexts, { from: plan.fromEpoch, to: plan.toEpoch, storedBy: PARTIES });
      expect(made).toBeDefined();
    }
    const said = async (state: 'stored' | 'switched') =>
      Promise.all(
        contexts.map(async (context) => ({
          party: context.party,
          attestation: await attestEpoch(context, { state, keyId, epoch }),
        })),
      );
    const stored = await said('stored');
    for (const context of contexts) await commitEpoch(context, { body: { keyId, epoch, attestations: stored } });
    const switched = await said('switched');
    for (const context of contexts) await finishEpoch(context, { body: { keyId, epoch, attestations: switched } });
  }
});
