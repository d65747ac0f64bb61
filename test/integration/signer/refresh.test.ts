import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { PARTIES } from '../../../signer/parties.ts';
import type { TestKey } from '../../support/payments.ts';
import { PAIRS, type ShareWorld, startShareWorld } from '../../support/share-world.ts';

// Keys and their refreshes are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

/** Keys take seconds each of every core. */
const HOOK_TIMEOUT_MS = 300_000;

describe('a refresh', () => {
  let world: ShareWorld;
  let key: TestKey;
  const keyId = 'ckey_refresh';

  beforeAll(async () => {
    world = await startShareWorld();
    key = await world.coordinator.generateKey({ keyId });
  }, HOOK_TIMEOUT_MS);
  afterAll(() => world?.stop());

  it('gives all three new shares of the same key, and leaves nothing of the old ones on any disk', async () => {
    await world.signByEveryPair(key);
    const before = new Map(
      await Promise.all(PARTIES.map(async (party) => [party, await world.sealedShare(party, keyId)] as const)),
    );
    const middle = (sealed: Buffer) => sealed.subarray(50_000, 50_064);
    for (const party of PARTIES) expect(world.isOnDisk(party, middle(before.get(party)!))).toBe(true);

    await expect(world.coordinator.refreshKey({ keyId })).resolves.toEqual({ keyId, epoch: 2, outcome: 'refreshed' });

    expect(await world.shape(keyId)).toEqual(['2', '2', '2']);
    for (const party of PARTIES) {
      const old = before.get(party)!;
      // The start, the middle and the end: a page that is left would hold one of them, or something between.
      for (let at = 0; at + 64 <= old.length; at += 3_900) {
        expect(world.isOnDisk(party, old.subarray(at, at + 64))).toBe(false);
      }
      expect(await world.sealedShare(party, keyId)).not.toEqual(old);
    }
    await world.signByEveryPair(key); // of the wallet that was derived before: each is recovered
  });

  it('is complete or ordinary as asked, and each is kept with its epoch', async () => {
    await world.coordinator.refreshKey({ keyId, complete: true });
    for (const party of PARTIES) {
      expect(await world.epochsAt(party, keyId)).toMatchObject([{ epoch: 3, complete: true, state: 'active' }]);
    }
    await world.coordinator.refreshKey({ keyId });
    for (const party of PARTIES) {
      expect(await world.epochsAt(party, keyId)).toMatchObject([{ epoch: 4, complete: false, state: 'active' }]);
    }
    await world.signByEveryPair(key);
  });

  it('leaves a key alone whose shares are new enough, and of the kind that is asked for', async () => {
    const current = { keyId, epoch: 4, outcome: 'current' };
    const hourAgo = Date.now() - 3_600_000;
    await expect(world.coordinator.refreshKey({ keyId, olderThanMs: hourAgo })).resolves.toEqual(current);
    await expect(world.coordinator.refreshKey({ keyId, olderThanMs: Date.now() })).resolves.toMatchObject({ epoch: 5 });
    const renewed = await world.coordinator.refreshKey({ keyId, complete: true, olderThanMs: hourAgo });
    expect(renewed).toEqual({ keyId, epoch: 6, outcome: 'refreshed' });
    const again = await world.coordinator.refreshKey({ keyId, complete: true, olderThanMs: hourAgo });
    expect(again).toEqual({ keyId, epoch: 6, outcome: 'current' });
  });

  it('keeps nobody from signing while it runs', async () => {
    let isOver = false;
    let signed = 0;
    const signing = PAIRS.map(async (pair) => {
      while (!isOver) {
        await world.sign(key, pair);
        signed += 1;
      }
    });
    for (let i = 0; i < 3; i++) await world.coordinator.refreshKey({ keyId });
    isOver = true;
    await Promise.all(signing);
    expect(signed).toBeGreaterThan(PAIRS.length);
  });

  it('is refused in plain words where there is no such key, or a signer is down', async () => {
    await expect(world.coordinator.refreshKey({ keyId: 'ckey_none' })).rejects.toMatchObject({
      name: 'SignRefused',
      message: 'no signer has a key ckey_none in use',
    });
    await world.signers.kill(3);
    await expect(world.coordinator.refreshKey({ keyId })).rejects.toMatchObject({
      name: 'SignerUnavailable',
      message: expect.stringMatching(/^key ckey_refresh got no new shares: signer 3: /),
    });
    await world.signers.restart(3);
    await expect(world.coordinator.refreshKey({ keyId })).resolves.toMatchObject({ outcome: 'refreshed' });
    await world.signByEveryPair(key);
  });
});
