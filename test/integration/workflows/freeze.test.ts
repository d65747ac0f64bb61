import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { settleFreezes } from '../../../activities/settle-freezes.ts';
import { createSigningActivities } from '../../../activities/signing.ts';
import { type FreezeSubject, freeze, readFreezes, unfreeze } from '../../../shared/db/freezes.ts';
import { inTransaction } from '../../../shared/db/pool.ts';
import type { FreezeProgress } from '../../../shared/domain/freeze-progress.ts';
import { startFreeze } from '../../../shared/freeze-start.ts';
import { freezeWorkflowId, messageNames, workflowNames } from '../../../shared/temporal.ts';
import { bestOf } from '../../support/best-of.ts';
import { eventually } from '../../support/client.ts';
import { signRequestFor } from '../../support/payments.ts';
import { type SignerWorld, startSignerWorld } from '../../support/signer-world.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 300_000 });

const patient = { timeoutMs: 60_000 };

let world: SignerWorld;
let key: Awaited<ReturnType<SignerWorld['newKey']>>;
beforeAll(async () => {
  world = await startSignerWorld();
  key = await world.newKey();
  // The first run loads the bundle.
  await startFreeze(world.client);
  await handle().result();
});
afterAll(() => world?.stop());
afterEach(async () => {
  await change(unfreeze, { scope: 'installation' });
  await change(unfreeze, { scope: 'account', accountId: key.accountId });
  await told();
});

const handle = () => world.client.workflow.getHandle(freezeWorkflowId);
const why = { reason: 'a test', by: 'operator' };
async function change(how: typeof freeze | typeof unfreeze, subject: FreezeSubject): Promise<void> {
  await inTransaction<unknown>(world.pool, (db) => how(db, { ...subject, ...why }));
  await startFreeze(world.client);
}
const ofAccount = (): FreezeSubject => ({ scope: 'account', accountId: key.accountId });
const standing = () => readFreezes(world.pool);
const told = () => eventually(standing, (state) => state.told === state.version, patient);
const progress = () => handle().query<FreezeProgress>(messageNames.freezeProgress);
const ask = async () =>
  world.signer.sign(
    await signRequestFor(key, {
      policyKey: world.signers.policyKey,
      receipt: (valid) => ({ ...valid, account_id: key.accountId }),
    }),
  );
const outcome = () =>
  ask().then(
    () => 'signed',
    (error: { reason?: string }) => error.reason ?? String(error),
  );

describe('the workflow that tells the signers what is frozen', () => {
  it('has nothing signed a second after a freeze, and signatures again after its end', async () => {
    expect(await outcome()).toBe('signed');
    const freezing = async () => {
      const since = performance.now();
      await change(freeze, ofAccount());
      await vi.waitFor(async () => expect(await outcome()).toBe('frozen'), { timeout: 60_000, interval: 20 });
      const tookMs = performance.now() - since;
      await told();
      expect(await handle().result()).toMatchObject({ confirmed: [1, 2, 3], missing: [] });
      expect(await world.detailsOf(freezeWorkflowId)).toMatch(/^Confirmed by signers 1, 2, 3: they have version \d+/);
      await change(unfreeze, ofAccount());
      await told();
      expect(await outcome()).toBe('signed');
      return tookMs;
    };
    expect(await bestOf(freezing, { withinMs: 1_000 })).toBeLessThan(1_000);
  });

  it('goes before payments that wait for a worker', async () => {
    await startFreeze(world.client);
    const { workflowExecutionInfo } = (await handle().describe()).raw;
    expect(workflowExecutionInfo?.priority?.priorityKey).toBe(1);
    await handle().result();
  });

  it('goes before signatures that wait for a place in the queue of the signers', async () => {
    const own = createSigningActivities({ signer: world.signer });
    const waiting = Promise.withResolvers<void>();
    const count = 100;
    let begun = 0;
    const begunBefore: number[] = [];
    await world.serveSigning({
      ...own,
      // Each keeps its place for longer than a signature does.
      async signerHealth() {
        begun += 1;
        await waiting.promise;
        await new Promise((resolve) => setTimeout(resolve, 300));
        return [];
      },
      tellSigners(order) {
        begunBefore.push(begun);
        return own.tellSigners(order);
      },
    });
    const runs = await Promise.all(
      Array.from({ length: count }, (_, n) =>
        world.client.workflow.start(workflowNames.readiness, { workflowId: `busy-${n}`, taskQueue: 'wallet' }),
      ),
    );
    await eventually(
      async () => begun,
      (places) => places >= 20,
      patient,
    );
    await change(freeze, ofAccount());
    waiting.resolve();
    await told();
    expect(begunBefore[0]).toBeLessThan(count * 0.8);
    await Promise.allSettled(runs.map((run) => run.result()));
    await world.serveSigning();
  });

  it('tells two at once, and the third when it is back; a newer word meanwhile goes to all', async () => {
    await world.signers.kill(3);
    await change(freeze, ofAccount());
    const { version: frozenAt } = await standing();
    const two = await eventually(
      progress,
      ({ version, confirmed }) => version === frozenAt && confirmed.length === 2,
      patient,
    );
    expect(two).toMatchObject({
      confirmed: [1, 2],
      missing: [{ party: 3, error: expect.stringContaining('signer 3') }],
    });
    expect(await outcome()).toBe('frozen');
    const before = await standing();
    expect(before.told).toBeLessThan(before.version);

    await change(freeze, { scope: 'installation' });
    const newer = await eventually(progress, ({ version }) => version > two.version, patient);
    expect(newer.confirmed.length === 0 || newer.confirmed.join() === '1,2').toBe(true);
    await world.signers.restart(3);
    await told();
    const signers = await world.signer.status();
    const { version } = await standing();
    for (const signer of signers)
      expect(signer).toMatchObject({ frozen: { version, installation: true, accounts: 1 } });
  });

  it('tells a signer that has lost its store again, once somebody has looked', async () => {
    await change(freeze, ofAccount());
    await told();
    await world.signers.kill(2);
    const db = new DatabaseSync(join(world.signers.dataDirOf(2), 'signer.sqlite'));
    db.exec('delete from freeze_order');
    db.close();
    await world.signers.restart(2);
    await world.run(workflowNames.watchSigners, { refreshDays: 30, wantsBackups: false });
    const { version, told: known } = await standing();
    expect(known).toBe(0);
    await settleFreezes({ pool: world.pool, client: world.client, logger: pino({ level: 'silent' }) });
    await told();
    expect((await world.signer.status())[1]).toMatchObject({ frozen: { version, accounts: 1 } });
  });

  it('does not believe that signers follow a database which is from before what they know', async () => {
    await change(freeze, ofAccount());
    await told();
    // As restored from a backup, with the same freeze not yet told.
    const { version } = await standing();
    await world.pool.query('delete from freezes');
    await world.pool.query('update freeze_orders set version = $1, told = 0', [version - 1_000]);
    await startFreeze(world.client);
    const stuck = await eventually(progress, ({ missing }) => missing.length === 3, patient);
    expect(stuck.missing[0]!.error).toMatch(/keeps to version \d+ and not \d+: the database is from before that/);
    expect(await outcome()).toBe('frozen');
    // Whoever says anew what is frozen is followed.
    await change(freeze, ofAccount());
    await change(unfreeze, ofAccount());
    await told();
    expect(await outcome()).toBe('signed');
  });
});
