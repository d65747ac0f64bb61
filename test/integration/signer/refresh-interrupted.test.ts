import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { SignerTransport } from '../../../signer/call.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import type { TestKey } from '../../support/payments.ts';
import { dyingTransport, type ShareWorld, startShareWorld } from '../../support/share-world.ts';

// Keys and their refreshes are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

/** The requests of one run, in the order in which the coordinator sends them: three of each. */
const STEPS = ['epochs', 'start', 'step 1', 'step 2', 'step 3', 'step 4', 'commit', 'finish'] as const;
type Step = (typeof STEPS)[number];

const nameOf = ({ path, body }: { path: string; body: object }): string => {
  const name = path.split('/').at(-1)!;
  return 'round' in body ? `${name} ${body.round}` : name;
};

/** Keys take seconds each of every core. */
const HOOK_TIMEOUT_MS = 300_000;

describe('a refresh that is interrupted', () => {
  let world: ShareWorld;
  let key: TestKey;
  const keyId = 'ckey_interrupted';

  beforeAll(async () => {
    world = await startShareWorld();
    key = await world.coordinator.generateKey({ keyId });
  }, HOOK_TIMEOUT_MS);
  afterAll(() => world?.stop());

  /** The coordinator ends at the n-th request of a step (from 0), before it is sent or before its answer is heard. */
  function dyingAt(step: Step, p: { nth: number; when: 'before' | 'after' }): SignerTransport {
    let seen = 0;
    return dyingTransport(world.transport, (call) => {
      if (nameOf(call) !== step) return undefined;
      return seen++ === p.nth ? p.when : undefined;
    });
  }

  async function expectHealed(): Promise<void> {
    await world.refresh({ keyId });
    const [first, ...others] = await world.shape(keyId);
    expect(first).toMatch(/^\d+$/);
    expect(others).toEqual([first, first]);
  }

  it.each(
    (['start', 'step 2', 'step 4', 'commit', 'finish'] as const).flatMap((step) => [
      { step, nth: 0, when: 'after' as const },
      { step, nth: 2, when: 'before' as const },
    ]),
  )(
    'by the death of the coordinator $when request $nth of $step: goes on with the next',
    async ({ step, nth, when }) => {
      await expect(world.refresh({ keyId }, dyingAt(step, { nth, when }))).rejects.toThrow('the coordinator is gone');
      await world.signByEveryPair(key);
      await expectHealed();
      await world.signByEveryPair(key);
    },
  );

  /** Kills a signer as soon as it has been sent the request of a step, or has answered it. */
  function killingAt(step: Step, p: { party: Party; when: 'before' | 'after' }): SignerTransport {
    return {
      ...world.transport,
      async call(peer, asked) {
        const isIt = peer.party === p.party && nameOf({ path: asked.path, body: asked.body }) === step;
        if (!isIt) return world.transport.call<never>(peer, asked);
        if (p.when === 'before') {
          const asking = world.transport.call<never>(peer, asked);
          asking.catch(() => undefined);
          await world.signers.kill(p.party);
          return asking;
        }
        const answer = await world.transport.call<never>(peer, asked);
        await world.signers.kill(p.party);
        return answer;
      },
    };
  }

  it.each(
    (['step 1', 'step 4', 'commit', 'finish'] as const).flatMap((step, index) =>
      (['before', 'after'] as const).map((when, late) => ({ step, when, party: PARTIES[(index + late) % 3]! })),
    ),
  )('by kill -9 of signer $party $when it answers $step: goes on with the next', async ({ step, when, party }) => {
    const running = world.refresh({ keyId }, killingAt(step, { party, when }));
    // Killed after its last answer it is missed by nobody.
    if (step === 'finish' && when === 'after') await running;
    else await expect(running).rejects.toThrow(`signer ${party}`);
    const others = PARTIES.filter((other) => other !== party) as [Party, Party];
    await world.sign(key, others);
    await world.signers.restart(party);
    await world.signByEveryPair(key);
    await expectHealed();
    await world.signByEveryPair(key);
  });
});
