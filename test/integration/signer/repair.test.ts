import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { coordinateRepair } from '../../../signer/coordinate-repair.ts';
import { newSession } from '../../../signer/new-session.ts';
import type { OperationPath } from '../../../signer/operations.ts';
import type { Party } from '../../../signer/parties.ts';
import type { TestKey } from '../../support/payments.ts';
import { dyingTransport, type ShareWorld, startShareWorld } from '../../support/share-world.ts';

// Keys and their refreshes are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const cli = fileURLToPath(new URL('../../../signer/cli/main.ts', import.meta.url));

/** Keys take seconds each of every core. */
const HOOK_TIMEOUT_MS = 300_000;

describe('a signer that lost its shares', () => {
  let world: ShareWorld;
  let older: TestKey;
  let newer: TestKey;

  const run = async (...args: string[]) => {
    const env = {
      ...process.env,
      PURSER_SIGNERS: JSON.stringify(world.signers.endpoints),
      PURSER_OPERATOR_KEY_FILE: world.signers.operatorIdentityFile,
    };
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [cli, ...args, '--json'], { env });
    return { printed: JSON.parse(stdout), told: stderr };
  };
  const ask = (party: Party, path: OperationPath, body: object) =>
    world.operatorTransport.call<{ message: string }>(world.peer(party), {
      path,
      body,
      session: newSession(),
      timeoutMs: 40_000,
    });
  const repair = (keyId: string, party: Party, transport = world.operatorTransport) => {
    const reach = { peers: world.peers, timeoutMs: 45_000, signal: AbortSignal.timeout(110_000) };
    return coordinateRepair(transport, { ...reach, keyId, party });
  };
  async function lose(party: Party): Promise<void> {
    await world.signers.kill(party);
    rmSync(world.signers.dataDirOf(party), { recursive: true });
    await world.signers.restart(party);
  }
  const newestAt = async (party: Party, keyId: string) => (await world.epochsAt(party, keyId)).at(-1)?.epoch;

  beforeAll(async () => {
    world = await startShareWorld();
    older = await world.coordinator.generateKey({ keyId: 'ckey_older' });
    newer = await world.coordinator.generateKey({ keyId: 'ckey_newer' });
    await world.refresh({ keyId: older.keyId });
  }, HOOK_TIMEOUT_MS);
  afterAll(() => world?.stop());

  it('is given them again by the two others, all keys by one command, and signs once it has their records', async () => {
    await lose(2);
    await expect(world.coordinator.refreshKey({ keyId: older.keyId })).rejects.toMatchObject({
      name: 'RefreshBlocked',
      reason: 'repair_needed',
      parties: [2],
    });
    await world.sign(older, [1, 3]); // nobody waits for it

    const { printed, told } = await run('repair', '--party', '2');

    expect(printed).toMatchObject({ keys: 2, outcomes: { repaired: 2 }, failed: [] });
    expect(told).toContain('2 of 2: ckey_older repaired');
    expect(await world.shape(older.keyId)).toEqual(['3', '3', '3']);
    expect(await world.shape(newer.keyId)).toEqual(['2', '2', '2']);
    for (const key of [older, newer]) await world.signByEveryPair(key);
    expect(await run('repair', '--party', '2')).toMatchObject({ printed: { outcomes: { current: 2 } } });
    await expect(world.coordinator.refreshKey({ keyId: older.keyId })).resolves.toMatchObject({ epoch: 4 });
    await world.signByEveryPair(older);
  });

  it('is given one again that is damaged, and nothing of it stays', async () => {
    await world.inStore(3, (db) => {
      const row = db.prepare('select sealed_share from shares where key_id = ?').get(newer.keyId);
      const sealed = Buffer.from((row as { sealed_share: Uint8Array }).sealed_share);
      sealed[1000]! ^= 1;
      db.prepare('update shares set sealed_share = ? where key_id = ?').run(sealed, newer.keyId);
    });
    await expect(world.coordinator.refreshKey({ keyId: newer.keyId })).rejects.toMatchObject({
      name: 'RefreshBlocked',
      parties: [3],
    });
    const { printed } = await run('repair', '--party', '3', '--key', newer.keyId);
    expect(printed).toMatchObject({ result: { keyId: newer.keyId, epoch: 3, outcome: 'repaired' } });
    expect(await world.shape(newer.keyId)).toEqual(['3', '3', '3']);
    await world.signByEveryPair(newer);
  });

  it('is helped by nobody to a share that it has, to an epoch that is not in use, or to another key', async () => {
    const { keyId } = newer;
    const epoch = (await newestAt(1, keyId))!;
    await expect(ask(1, '/v1/repair/term', { keyId, epoch: epoch + 1, target: 3 })).rejects.toMatchObject({
      code: 'other_epoch',
    });
    await expect(ask(1, '/v1/repair/term', { keyId, epoch, target: 1 })).rejects.toMatchObject({ code: 'malformed' });
    const session = newSession();
    const term = (from: Party, of = keyId, at = epoch) =>
      world.operatorTransport
        .call<{ message: string }>(world.peer(from), {
          path: '/v1/repair/term',
          body: { keyId: of, epoch: at, target: 3 },
          session,
          timeoutMs: 40_000,
        })
        .then(({ message }) => ({ from, message }));
    const start = (messages: object[]) =>
      world.operatorTransport.call<object>(world.peer(3), {
        path: '/v1/repair/start',
        body: { keyId, fromEpoch: epoch, toEpoch: epoch + 1, messages },
        session,
        timeoutMs: 40_000,
      });
    const [first, second] = [await term(1), await term(2)];
    await expect(start([first, second])).rejects.toMatchObject({ code: 'other_epoch', message: /nothing is lost/ });
    await world.inStore(3, (db) => db.prepare('delete from shares where key_id = ?').run(keyId));
    const otherKey = await term(2, older.keyId, (await newestAt(2, older.keyId))!);
    for (const messages of [
      [first, otherKey], // another key
      [first, { ...first, from: 2 }], // another sender
      [first, { ...second, message: second.message.slice(0, -1) }],
    ]) {
      await expect(start(messages)).rejects.toMatchObject({ code: 'bad_message' });
    }
    expect(await world.epochsAt(3, keyId)).toEqual([]);
    await run('repair', '--party', '3', '--key', keyId);
    await world.signByEveryPair(newer);
  });

  it('is repaired whoever dies in between, by asking again', async () => {
    const { keyId } = newer;
    const ends: [OperationPath, 'before' | 'after'][] = [
      ['/v1/repair/term', 'after'],
      ['/v1/refresh/start', 'before'],
      ['/v1/refresh/commit', 'before'],
      ['/v1/refresh/finish', 'before'],
    ];
    for (const [path, when] of ends) {
      await world.inStore(1, (db) => db.prepare('delete from shares where key_id = ?').run(keyId));
      const dying = dyingTransport(world.operatorTransport, (call) => (call.path === path ? when : undefined));
      await expect(repair(keyId, 1, dying)).rejects.toThrow('the coordinator is gone');
      await world.sign(newer, [2, 3]);
      await world.signers.kill(1);
      await world.signers.restart(1);
      await repair(keyId, 1);
      const [first, ...others] = await world.shape(keyId);
      expect(first).toMatch(/^\d+$/);
      expect(others).toEqual([first, first]);
    }
    await run('repair', '--party', '1');
    await world.signByEveryPair(newer);
  });

  it('takes no key up that it gave up after storing it; one whose id somebody used up meanwhile it does', async () => {
    const { keyId } = newer;
    const state = (set: string) =>
      world.inStore(2, (db) => {
        db.prepare('delete from shares where key_id = ?').run(keyId);
        db.prepare(`update keys set state = 'abandoned', ${set} where key_id = ?`).run(keyId);
      });
    await state('was_stored = 1');
    await expect(repair(keyId, 2)).rejects.toMatchObject({ code: 'key_exists', party: 2 });
    await state('was_stored = 0');
    await repair(keyId, 2);
    await run('repair', '--party', '2');
    await world.signByEveryPair(newer);
  });

  it('is not repaired at the word of a worker', async () => {
    await expect(world.coordinator.repairKey({ keyId: newer.keyId, party: 2 })).resolves.toMatchObject({
      outcome: 'current',
    });
    await world.inStore(2, (db) => db.prepare('delete from shares where key_id = ?').run(newer.keyId));
    await expect(world.coordinator.repairKey({ keyId: newer.keyId, party: 2 })).rejects.toMatchObject({
      name: 'SignerFault',
      message: expect.stringContaining('/v1/repair/term is for operator only'),
    });
  });
});
