import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { SignerTransport } from '../../../signer/call.ts';
import { runRefresh } from '../../../signer/coordinate-refresh.ts';
import { newSession } from '../../../signer/new-session.ts';
import type { OperationPath } from '../../../signer/operations.ts';
import type { Party } from '../../../signer/parties.ts';
import type { TestKey } from '../../support/payments.ts';
import { dyingTransport, type ShareWorld, startShareWorld } from '../../support/share-world.ts';

// Keys and their refreshes are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

type Attestations = { party: Party; attestation: string }[];

/** Keys take seconds each of every core. */
const HOOK_TIMEOUT_MS = 300_000;

describe('the owner of the worker', () => {
  let world: ShareWorld;
  let key: TestKey;
  const keyId = 'ckey_hostile';
  /** What the signers said in the last run that was led to its end, and in one that was not. */
  let stored: Attestations = [];
  let switched: Attestations = [];

  const ask = (party: Party, path: OperationPath, body: object, by: SignerTransport = world.transport) =>
    by.call<{ attestation: string }>(world.peer(party), { path, body, session: newSession(), timeoutMs: 40_000 });
  const reach = () => ({ peers: world.peers, timeoutMs: 45_000, signal: AbortSignal.timeout(120_000) });
  /** Notes what is sent for commit and for finish; ends where it is told to. */
  const spying = (end?: 'commit' | 'finish') =>
    dyingTransport(world.transport, ({ path, body }) => {
      const said = 'attestations' in body ? (body.attestations as Attestations) : [];
      if (path === '/v1/refresh/commit') stored = said;
      if (path === '/v1/refresh/finish') switched = said;
      return end && path === `/v1/refresh/${end}` ? 'before' : undefined;
    });

  beforeAll(async () => {
    world = await startShareWorld();
    key = await world.coordinator.generateKey({ keyId });
  }, HOOK_TIMEOUT_MS);
  afterAll(() => world?.stop());

  it('has no run begun from an epoch that is not in use, nor to a number that is taken or beyond the clock', async () => {
    await world.refresh({ keyId }, spying());
    const start = (body: object) =>
      ask(1, '/v1/refresh/start', { keyId, fromEpoch: 2, toEpoch: 3, complete: false, ...body });
    for (const fromEpoch of [1, 3]) {
      await expect(start({ fromEpoch })).rejects.toMatchObject({
        code: 'other_epoch',
        message: `signer 1 does not use epoch ${fromEpoch} of key ${keyId}, it has 2`,
      });
    }
    for (const toEpoch of [2, Date.now() + 60_000]) {
      await expect(start({ toEpoch })).rejects.toMatchObject({ code: 'other_epoch', message: /cannot follow/ });
    }
    await expect(start({ keyId: 'ckey_none' })).rejects.toMatchObject({ code: 'unknown_key' });
  });

  it('asks two signers for different things in vain, and gets nobody banned by it', async () => {
    const asked = (party: Party, changes: object, only: Party) =>
      world.transport.call<never>(world.peer(party), {
        path: '/v1/refresh/start',
        session,
        body: { keyId, fromEpoch: 2, toEpoch: 3, complete: false, ...(party === only ? changes : {}) },
        timeoutMs: 30_000,
      });
    let session = '';
    for (const changes of [{ toEpoch: 4 }, { complete: true }]) {
      session = newSession();
      const run = { ...reach(), keyId, fromEpoch: 2, toEpoch: 3, complete: false, session };
      await expect(
        runRefresh(world.transport, { ...run, start: (peer) => asked(peer.party, changes, 2) }),
      ).rejects.toMatchObject({ code: 'bad_message', culprit: null });
    }
    expect((await world.coordinator.status()).flatMap((signer) => ('bans' in signer ? signer.bans : []))).toEqual([]);
    await world.signByEveryPair(key);
  });

  it('switches nobody without the word of both others for the very same run', async () => {
    const before = stored; // of epoch 2
    await expect(world.refresh({ keyId }, spying('commit'))).rejects.toThrow('the coordinator is gone');
    expect(await world.shape(keyId)).toEqual(['2 3?', '2 3?', '2 3?']);
    const commit = (attestations: Attestations, epoch = 3) =>
      ask(1, '/v1/refresh/commit', { keyId, epoch, attestations });
    const instead = (party: Party, attestation: string) =>
      stored.map((said) => (said.party === party ? { party, attestation } : said));
    const of = (party: Party, said = stored) => said.find((one) => one.party === party)!.attestation;
    const bad: [string, Attestations][] = [
      ['of an earlier run', instead(2, of(2, before))],
      ['of somebody else', instead(2, of(3))],
      ['its own', instead(3, of(1))],
      ['nothing', instead(3, '')],
      ['a switch instead of a store', instead(2, of(2, switched))],
    ];
    for (const [, attestations] of bad) {
      await expect(commit(attestations)).rejects.toMatchObject({ code: 'bad_message', message: /has not attested/ });
    }
    await expect(commit(stored.slice(0, 2))).rejects.toMatchObject({ code: 'malformed' });
    await expect(commit(stored, 4)).rejects.toMatchObject({ code: 'other_epoch' });
    expect(await world.shape(keyId)).toEqual(['2 3?', '2 3?', '2 3?']);
    await world.signByEveryPair(key);
  });

  it('has nothing erased before all three use the new shares', async () => {
    const commit = (party: Party) => ask(party, '/v1/refresh/commit', { keyId, epoch: 3, attestations: stored });
    const finish = (party: Party, attestations: Attestations) =>
      ask(party, '/v1/refresh/finish', { keyId, epoch: 3, attestations });
    const said = [];
    for (const party of [1, 2] as const) said.push({ party, ...(await commit(party)) });
    expect(await world.shape(keyId)).toEqual(['2 3', '2 3', '2 3?']);
    const third = stored.find(({ party }) => party === 3)!;
    for (const attestations of [[...said, third], stored, switched]) {
      await expect(finish(1, attestations)).rejects.toMatchObject({ code: 'bad_message' });
    }
    // Also where the two others say so, it is not erased by one that does not use the new ones itself.
    await expect(finish(3, [...said, third])).rejects.toMatchObject({ code: 'other_epoch', message: /does not use/ });
    expect(await world.shape(keyId)).toEqual(['2 3', '2 3', '2 3?']);
    await world.signByEveryPair(key);
  });

  it('that commits halfway, and has another run take the place, leaves a key that signs and heals', async () => {
    // Signers 1 and 2 use epoch 3. Another run drops what signer 3 has stored of it, and is committed at signer 3 only.
    const run = { ...reach(), keyId, fromEpoch: 2, toEpoch: 4, complete: false };
    await expect(runRefresh(spying('commit'), run)).rejects.toThrow('the coordinator is gone');
    expect(await world.shape(keyId)).toEqual(['2 3 4?', '2 3 4?', '2 4?']);
    await ask(3, '/v1/refresh/commit', { keyId, epoch: 4, attestations: stored });
    expect(await world.shape(keyId)).toEqual(['2 3 4?', '2 3 4?', '2 4']);
    await world.sign(key, [1, 2]);

    await expect(world.refresh({ keyId })).resolves.toEqual({ keyId, epoch: 4, outcome: 'completed' });
    expect(await world.shape(keyId)).toEqual(['4', '4', '4']);
    await world.signByEveryPair(key);
  });

  it('that has a signer refuse what it stored and begin again leaves a key that heals also from there', async () => {
    await expect(world.refresh({ keyId }, spying('commit'))).rejects.toThrow('the coordinator is gone');
    const first = stored;
    await ask(1, '/v1/refresh/commit', { keyId, epoch: 5, attestations: first });
    // The second run is stored by signers 2 and 3 under the same number: signer 1 uses that number already.
    const again = { ...reach(), keyId, fromEpoch: 4, toEpoch: 5, complete: false };
    await expect(runRefresh(world.transport, again)).rejects.toMatchObject({ code: 'other_epoch' });
    await expect(runRefresh(spying('commit'), { ...again, toEpoch: 6 })).rejects.toThrow('the coordinator is gone');
    expect(await world.shape(keyId)).toEqual(['4 5 6?', '4 6?', '4 6?']);
    await expect(ask(2, '/v1/refresh/commit', { keyId, epoch: 5, attestations: first })).rejects.toMatchObject({
      code: 'other_epoch',
    });
    await world.signByEveryPair(key);
    await expect(world.refresh({ keyId })).resolves.toEqual({ keyId, epoch: 6, outcome: 'completed' });
    expect(await world.shape(keyId)).toEqual(['6', '6', '6']);
  });

  it('does none of what is for the operator', async () => {
    const forOperators: [OperationPath, object][] = [
      ['/v1/repair/term', { keyId, epoch: 6, target: 2 }],
      ['/v1/repair/start', { keyId, fromEpoch: 6, toEpoch: 7, messages: [] }],
      ['/v1/unban', { keyId, party: 2, epoch: 6 }],
    ];
    for (const [path, body] of forOperators) {
      await expect(ask(1, path, body)).rejects.toMatchObject({ code: 'forbidden' });
    }
  });

  describe('and a ban', () => {
    const ban = (by: Party, party: Party) =>
      world.inStore(by, (db) =>
        db.prepare('insert into bans values (?, ?, ?, ?)').run(keyId, party, 'found cheating', Date.now()),
      );

    it('keeps the pair from making shares together, by any way of the coordinator', async () => {
      await ban(1, 2);
      await expect(world.coordinator.refreshKey({ keyId })).rejects.toMatchObject({
        name: 'RefreshBlocked',
        reason: 'banned',
        parties: [2],
        message: expect.stringContaining(`npm run signers -- unban --key ${keyId}`),
      });
      const from = { keyId, fromEpoch: 6, toEpoch: 7 };
      for (const complete of [false, true]) {
        const asked = ask(1, '/v1/refresh/start', { ...from, complete });
        await expect(asked).rejects.toMatchObject({ code: 'banned_pair' });
      }
      const ordinary = ask(1, '/v1/refresh/start', { ...from, complete: false }, world.operatorTransport);
      await expect(ordinary).rejects.toMatchObject({ code: 'banned_pair' });
      await expect(world.sign(key, [1, 2])).rejects.toMatchObject({ code: 'banned_pair' });
      await world.sign(key, [2, 3]);
      await world.sign(key, [1, 3]);
    });

    it('is lifted by the operator only after a complete refresh of all three that began after it', async () => {
      const unban = (epoch: number) => ask(1, '/v1/unban', { keyId, party: 2, epoch }, world.operatorTransport);
      await expect(unban(6)).rejects.toMatchObject({ code: 'banned_pair', message: /complete refresh after the ban/ });
      // Not while the shares of before are still there.
      const dying = dyingTransport(world.operatorTransport, ({ path }) =>
        path === '/v1/refresh/finish' ? 'before' : undefined,
      );
      const run = { ...reach(), keyId, fromEpoch: 6, toEpoch: 7, complete: true };
      await expect(runRefresh(dying, run)).rejects.toThrow('the coordinator is gone');
      await expect(unban(7)).rejects.toMatchObject({ code: 'banned_pair' });

      const lifted = await world.operator.liftBans({ keyId });
      expect(lifted).toEqual({ keyId, epoch: 8, lifted: [{ by: 1, party: 2 }] });
      expect(await world.shape(keyId)).toEqual(['8', '8', '8']);
      await world.signByEveryPair(key);
      expect(world.signers.output()).toContain('signer 1 works with signer 2 again, as the operator said');
      await expect(world.operator.liftBans({ keyId })).resolves.toMatchObject({ lifted: [] });
      await expect(unban(8)).resolves.toEqual({ lifted: false });
    });
  });
});
