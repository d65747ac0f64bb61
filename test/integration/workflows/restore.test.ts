import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { freezeAndNote, unfreezeAndNote } from '../../../shared/change-freeze.ts';
import { insertAccountKey } from '../../../shared/db/account-keys.ts';
import { createAccount } from '../../../shared/db/accounts.ts';
import { byOperator } from '../../../shared/db/audit.ts';
import { findFreeze, readFreezes } from '../../../shared/db/freezes.ts';
import { claimInstallation } from '../../../shared/db/installation.ts';
import { inTransaction } from '../../../shared/db/pool.ts';
import { startFreeze } from '../../../shared/freeze-start.ts';
import { newId } from '../../../shared/ids.ts';
import { noteDatabase } from '../../../shared/note-database.ts';
import { freezeWorkflowId } from '../../../shared/temporal.ts';
import { eventually } from '../../support/client.ts';
import { type SignerWorld, startSignerWorld } from '../../support/signer-world.ts';
import { createAdmin } from '../api/admin-calls.ts';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

const patient = { timeoutMs: 180_000 };
const installation = { scope: 'installation' } as const;
const operator = byOperator('night');

let world: SignerWorld;
let accountId: string;
beforeAll(async () => {
  world = await startSignerWorld();
  await claimInstallation(world.pool, { environment: 'sandbox' });
  await noteDatabase(world.pool);
  // The first run loads the bundle.
  await startFreeze(world.client);
  await world.client.workflow.getHandle(freezeWorkflowId).result();
});
afterAll(() => world?.stop());
beforeEach(async () => {
  await world.pool.query('delete from freezes; delete from freeze_notes');
  // Only this one is told of what follows.
  accountId = await createAccount(world.pool, { name: 'Test', plan: 'starter' });
  await insertAccountKey(world.pool, { id: newId('ckey'), accountId, publicKey: '0x', chainCode: '0x' });
  await world.pool.query('update freeze_orders set version = version + 1');
  await startFreeze(world.client);
  await told();
});

const standing = () => readFreezes(world.pool);
const told = () => eventually(standing, (state) => state.told === state.version, patient);
const byPerson = (reason: string) =>
  inTransaction(world.pool, (db) => freezeAndNote(db, { ...installation, reason, acting: operator }));
/** As if the database had been restored elsewhere, and a process had started. */
async function restoreElsewhere(): Promise<void> {
  await world.pool.query(`update installation set database_identity = '7000000000000000001/00000001/1'`);
  expect(await noteDatabase(world.pool)).toBe(true);
}
const { runProcess } = createAdmin({ databaseUrl: () => world.databaseUrl });
/** `said`: everything that it printed. `told`: its result, where it came to one. */
async function reconcile(...args: string[]) {
  const env = { TEMPORAL_ADDRESS: world.temporalAddress };
  const { code, stdout, stderr } = await runProcess(['reconcile', '--json', ...args], env);
  const printed = stdout === '' ? {} : JSON.parse(stdout);
  return { code, said: `${stdout}${stderr}`, told: 'unfrozen' in printed ? printed : undefined };
}
/** What the signers say that they have on disk. */
const signersFrozen = async () =>
  (await world.signer.status()).map((status) => 'frozen' in status && status.frozen.installation);
async function entries(): Promise<unknown[]> {
  const { rows } = await world.pool.query(
    `select action from audit_inbox where account_id = $1 and action like 'account.%frozen' order by created_at, id`,
    [accountId],
  );
  return rows.map(({ action }) => action);
}
async function eventTypes(): Promise<unknown[]> {
  const { rows } = await world.pool.query(
    `select type from events where account_id = $1 and type like 'account.%frozen' order by created_at, id`,
    [accountId],
  );
  return rows.map(({ type }) => type);
}
const skipped = async () =>
  (await world.pool.query('select next_index from account_keys where account_id = $1', [accountId])).rows[0].next_index;

describe('a reconcile lifts what the service has frozen itself', () => {
  it('because the database is another one; accounts, signers and audit know', async () => {
    await restoreElsewhere();
    await startFreeze(world.client);
    const { code, told: result } = await reconcile();
    expect([code, result]).toEqual([0, expect.objectContaining({ unfrozen: true, freeze: null })]);
    expect((await told()).installation).toBe(false);
    expect(await signersFrozen()).toEqual([false, false, false]);
    expect([await entries(), await eventTypes()]).toEqual([
      ['account.frozen', 'account.unfrozen'],
      ['account.frozen', 'account.unfrozen'],
    ]);
  });

  it('for the comparison, but for whoever wishes that it stays', async () => {
    const { code, told: kept } = await reconcile('--keep-frozen', 'on');
    expect([code, kept.unfrozen, kept.freeze.frozen_by]).toEqual([0, false, 'system']);
    expect(kept.next).toMatch(/as you wished/);
    expect((await standing()).installation).toBe(true);
    // One that was broken off has left the same behind.
    expect((await reconcile()).told).toMatchObject({ unfrozen: true });
    expect((await standing()).installation).toBe(false);
  });
});

describe('a freeze that a person has ordered outlives a reconcile', () => {
  it.each([
    ['before it', async () => void (await byPerson('odd payments'))],
    [
      'on top of what the service froze',
      async () => {
        await restoreElsewhere();
        await byPerson('odd payments');
      },
    ],
  ])('%s, and its exit status says so', async (_, freeze) => {
    await freeze();
    const { code, told: result } = await reconcile();
    expect([code, result.unfrozen, result.before_unfreezing]).toEqual([1, false, []]);
    expect(result.freeze).toMatchObject({ frozen_by: 'operator', reason: 'odd payments' });
    expect(result.next).toMatch(/by order of operator .*odd payments.*unfreeze all lifts it/);
    expect((await told()).installation).toBe(true);
    expect(await signersFrozen()).toEqual([true, true, true]);
    expect(await eventTypes()).not.toContain('account.unfrozen');
    expect(await entries()).not.toContain('account.unfrozen');
    // The person lifts it.
    const lifted = await inTransaction(world.pool, (db) => unfreezeAndNote(db, { ...installation, acting: operator }));
    expect(lifted?.reason).toBe('odd payments');
  });

  it('also one that comes while it is compared', async () => {
    const running = reconcile();
    await eventually(
      () => findFreeze(world.pool, installation),
      (row) => row !== undefined,
      patient,
    );
    await byPerson('odd payments');
    const { code, told: result } = await running;
    expect([code, result.unfrozen, result.freeze.reason]).toEqual([1, false, 'odd payments']);
    expect((await told()).installation).toBe(true);
    expect(await signersFrozen()).toEqual([true, true, true]);
  });
});

describe('addresses that may have been given out', () => {
  it('are passed over, unless nothing of the database was lost', async () => {
    const before = await skipped();
    expect((await reconcile('--database', 'kept')).told).toMatchObject({ repaired: [], unfrozen: true });
    expect(await skipped()).toBe(before);
    const { told: result } = await reconcile();
    expect(result.repaired.map(({ what }: { what: string }) => what)).toContain('indexes_skipped');
    expect(await skipped()).toBe(before + 1_000);
  });

  it('are passed over whatever is said where the database is another one than before', async () => {
    await restoreElsewhere();
    const before = await standing();
    const { code, said } = await reconcile('--database', 'kept');
    expect([code, said]).toEqual([1, expect.stringMatching(/--database kept is wrong.*another database/)]);
    expect(await standing()).toEqual(before);
  });
});

describe('a reconcile that cannot be made', () => {
  it('says which signer is away, ends with 1, and changes nothing', async () => {
    await world.signers.kill(2);
    try {
      const before = [await standing(), await skipped()];
      for (const args of [[], ['--dry-run', 'on']]) {
        const { code, said, told: result } = await reconcile(...args);
        expect([code, result]).toEqual([1, undefined]);
        expect(said).toMatch(
          /Signer 2 does not answer \(.+\)\. Reconcile needs all three signers.*Nothing was changed/,
        );
      }
      expect([await standing(), await skipped()]).toEqual(before);
    } finally {
      await world.signers.restart(2);
    }
    expect((await reconcile()).code).toBe(0);
  });

  it('is refused where it is told to begin in the future', async () => {
    const before = await standing();
    const { code, said } = await reconcile('--since', '2999-01-01T00:00:00Z');
    expect([code, said]).toEqual([2, expect.stringMatching(/--since must be a time in the past/)]);
    expect(await standing()).toEqual(before);
  });

  it('compares no less than without --since', async () => {
    const dayAgoMs = Date.now() - 24 * 60 * 60 * 1000;
    const result = (await reconcile('--dry-run', 'on', '--since', new Date(dayAgoMs).toISOString())).told;
    expect(Date.parse(result.compared_since)).toBeLessThan(dayAgoMs);
  });
});
