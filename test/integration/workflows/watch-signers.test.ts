import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSigningActivities } from '../../../activities/signing.ts';
import { deriveEvmAddress } from '../../../shared/chain/evm/derive-address.ts';
import { getX402Payment } from '../../../shared/db/x402-payments.ts';
import type { SignerLook } from '../../../shared/domain/signer-alerts.ts';
import { newId } from '../../../shared/ids.ts';
import { workflowNames } from '../../../shared/temporal.ts';
import { x402PaymentStart } from '../../../shared/x402-start.ts';
import { createSignerClient } from '../../../signer/client.ts';
import { ensureSchedules } from '../../../worker/schedules.ts';
import { eventually } from '../../support/client.ts';
import type { TestAgent } from '../../support/rows.ts';
import { alertTo, type SignerWorld, startSignerWorld } from '../../support/signer-world.ts';
import { insertTestLedger, insertTestSession } from '../../support/x402-ledger.ts';

type Key = Awaited<ReturnType<SignerWorld['newKey']>>;
const patient = { timeoutMs: 60_000 };
const path = 'm/44/60/0/0/0';

let world: SignerWorld;
let key: Key;
let agent: TestAgent;
beforeAll(async () => {
  world = await startSignerWorld();
  key = await world.newKey();
  agent = await newAgent(key);
}, 300_000);
afterAll(() => world?.stop());

/** An agent whose wallet is a child of the key. */
async function newAgent({ accountId, keyId, ...publicHalves }: Key): Promise<TestAgent> {
  const [agentId, walletId] = [newId('agent'), newId('wal')];
  const { pool } = world;
  await pool.query(`insert into agents (id, account_id, agent_name, chain) values ($1, $2, 'Agent', 'eip155:31337')`, [
    ...[agentId, accountId],
  ]);
  await pool.query(`insert into wallets (id, agent_id, account_key_id, path, address) values ($1, $2, $3, $4, $5)`, [
    ...[walletId, agentId, keyId, path, deriveEvmAddress({ ...publicHalves, path })],
  ]);
  return { accountId, agentId, walletId };
}
const watch = async () => {
  const { result, details } = await world.run(workflowNames.watchSigners, { refreshDays: 30, wantsBackups: false });
  return { look: result as SignerLook, details };
};
const mailed = (count: number) =>
  eventually(
    async () => world.smtp.mails.map(({ recipients, parsed }) => ({ recipients, subject: parsed.subject })),
    (mails) => mails.length >= count,
    patient,
  );
const logOf = (alert: string) => world.logged.filter((line) => line.alert === alert);

describe('a look at the signers', () => {
  it('is taken by a schedule, and says in words that nothing is wrong', async () => {
    await ensureSchedules(world.client, { keyRefreshDays: 30, environment: 'sandbox', gasCheckMinutes: 5, chains: [] });
    const handle = world.client.schedule.getHandle('watch-signers');
    await handle.pause('taken by hand here');
    await handle.trigger();
    const { workflowId } = await eventually(
      async () => (await handle.describe()).info.recentActions.at(-1)?.action.workflow ?? { workflowId: undefined },
      (started) => started.workflowId !== undefined,
      patient,
    );
    const look = await world.client.workflow.getHandle(workflowId!).result();
    expect(look).toEqual({ findings: [], unsure: [], answering: 3, keys: 1, freezeVersion: 0 });
    expect(await world.detailsOf(workflowId!)).toBe(
      '3 of 3 signers answer; they hold 1 account keys. Nothing is wrong that has lasted.',
    );
  });

  it('has operators told of a signer that is gone for minutes, and of its return', async () => {
    await world.signers.kill(3);
    expect((await watch()).details).toContain('2 of 3 signers answer; they hold 1 account keys. Nothing is wrong');
    world.pass(5);
    const { details } = await watch();
    expect(details).toMatch(/Open alerts: 1\.\n- Signer 3 does not answer: /);
    expect((await mailed(1))[0]).toEqual({ recipients: [alertTo], subject: 'Purser: Signer 3 does not answer' });
    expect(logOf('signer_unreachable')).toMatchObject([{ level: 50, party: 3 }]);
    await world.signers.restart(3);
    world.pass(5);
    expect((await watch()).details).toContain('Nothing is wrong');
    expect((await mailed(2))[1]).toMatchObject({ subject: 'Purser: over: Signer 3 does not answer' });
  });

  it('is missed itself where no worker can take it', async () => {
    const endpoints = world.signers.endpoints.map((each) => ({ ...each, publicKey: 'none' }));
    const blind = createSignerClient({ signers: endpoints, identity: world.signers.coordinatorIdentity });
    await world.serveSigning(createSigningActivities({ signer: blind }));
    try {
      expect((await watch()).look).toMatchObject({ findings: [{ kind: 'signers_unwatched' }], answering: 0 });
      world.pass(5);
      expect((await watch()).details).toMatch(/Open alerts: 1\.\n- Nobody asks the signers: /);
      expect((await mailed(3))[2]).toMatchObject({ subject: 'Purser: Nobody asks the signers' });
    } finally {
      await world.serveSigning();
      blind.close();
    }
    world.pass(5);
    expect((await watch()).details).toContain('Nothing is wrong');
  });
});

describe('a signer that cheats', () => {
  /** Has a payment made out of a session, without waiting for it. */
  async function pay(): Promise<string> {
    const row = await insertTestLedger(world.pool, await insertTestSession(world.pool, agent));
    await world.pool.query('update x402_payments set from_address = $2 where id = $1', [
      ...[row.id, deriveEvmAddress({ ...key, path })],
    ]);
    await world.client.workflow.start(workflowNames.x402Payment, x402PaymentStart(row));
    return row.id;
  }
  const eventsOf = async (id: string) => (await world.client.workflow.getHandle(id).fetchHistory()).events ?? [];
  /** What has become of a payment, as far as that is known: signed, or at rest because of a fault. */
  async function outcomeOf(id: string): Promise<'signed' | 'rests' | undefined> {
    if ((await getX402Payment(world.pool, { id }))!.payment_signature !== null) return 'signed';
    const failed = (await eventsOf(id)).some(
      ({ activityTaskFailedEventAttributes: each }) =>
        each?.failure?.cause?.applicationFailureInfo?.type === 'SignerFault' ||
        each?.failure?.applicationFailureInfo?.type === 'SignerFault',
    );
    return failed ? 'rests' : undefined;
  }
  const settled = (id: string) =>
    eventually(
      () => outcomeOf(id),
      (outcome) => outcome !== undefined,
      patient,
    );

  it('is banned: the payment rests, operators are told, and all others are signed without the pair', {
    timeout: 180_000,
  }, async () => {
    world.relay.isCheating = true;
    let resting: string | undefined;
    // Pairs take turns; the one that cheats comes up soon.
    for (let tries = 0; tries < 6 && resting === undefined; tries += 1) {
      const id = await pay();
      if ((await settled(id)) === 'rests') resting = id;
    }
    // It is not tried again by itself before its pause of a minute is over, and then asks anew.
    const events = await eventually(
      () => eventsOf(resting!),
      (all) =>
        all.some(({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout?.seconds?.toNumber() === 60),
      patient,
    );
    const scheduled = events.filter(
      (each) => each.activityTaskScheduledEventAttributes?.activityType?.name === 'signAuthorization',
    );
    expect(scheduled).toHaveLength(1);
    expect(await world.detailsOf(resting!)).toMatch(/at fault/);

    expect((await watch()).details).toMatch(
      new RegExp(`- Signer 1 is banned from key ${key.keyId}: \u2068?signer 2 does nothing`),
    );
    expect((await mailed(5)).at(-1)).toMatchObject({ subject: `Purser: Signer 1 is banned from key ${key.keyId}` });
    expect(logOf('signer_banned')).toMatchObject([{ level: 50, party: 1, keyId: key.keyId }]);
    const { rows } = await world.pool.query('select * from audit_inbox where account_id = $1 and action = $2', [
      ...[key.accountId, 'signer_alert.opened'],
    ]);
    expect(rows).toMatchObject([
      { result: 'error', resource_id: key.keyId, metadata: { kind: 'signer_banned', party: 1 } },
    ]);

    // It may go on cheating: nobody listens to it in that pair, so no payment fails or rests any more.
    for (let index = 0; index < 6; index += 1) expect(await settled(await pay())).toBe('signed');
    expect((await watch()).look.findings).toHaveLength(1);
  });

  it('is left out of refreshes, which an operator has to look after', async () => {
    const { result, details } = await world.run(workflowNames.refreshKeys, {});
    expect(result).toMatchObject({ refreshed: 0, failed: 0 });
    expect(details).toBe(
      'Refreshed 0 account keys. 1 are left to an operator: a signer of theirs is banned, or has no share.',
    );
  });

  it('has signed nothing with the one that banned it since', async () => {
    await Promise.all([world.signers.kill(1, 'SIGTERM'), world.signers.kill(2, 'SIGTERM')]);
    const store = (party: 1 | 2) =>
      new DatabaseSync(`${world.signers.dataDirOf(party)}/signer.sqlite`, { readOnly: true });
    const [first, second] = [store(1), store(2)];
    try {
      const { at } = second.prepare('select min(created_at_ms) as at from bans').get() as { at: number };
      const since = (db: DatabaseSync, other: number) =>
        db.prepare('select count(*) as n from signing_log where counterparty = ? and at_ms >= ?').get(other, at);
      expect(at).toBeGreaterThan(0);
      expect([since(first, 2), since(second, 1)]).toEqual([{ n: 0 }, { n: 0 }]);
      expect(second.prepare('select count(*) as n from signing_log where at_ms >= ?').get(at)).not.toEqual({ n: 0 });
    } finally {
      first.close();
      second.close();
    }
  });
});
