import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { forgetAlerts } from '../../../activities/forget-alerts.ts';
import { createNoteKeyRefresh } from '../../../activities/note-key-refresh.ts';
import { createNoteSignerLook } from '../../../activities/note-signer-look.ts';
import { insertAccountKey } from '../../../shared/db/account-keys.ts';
import { createAccount } from '../../../shared/db/accounts.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import type { AlertKind, SignerFinding } from '../../../shared/domain/signer-alerts.ts';
import { newId } from '../../../shared/ids.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';

const minuteMs = 60_000;
let database: TestDatabase;
let pool: Pool;
let logged: Record<string, unknown>[] = [];
/** Minutes since the test began, by the clock that counts. */
let minutes = 0;
const start = Date.now();

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});
beforeEach(async () => {
  await pool.query('delete from signer_alerts');
  logged = [];
  minutes = 0;
});

const logger = pino({ level: 'info' }, { write: (line: string) => void logged.push(JSON.parse(line)) });
const clock = async () => new Date(start + minutes * minuteMs);
const note = (findings: readonly SignerFinding[], unsure: readonly AlertKind[] = []) =>
  createNoteSignerLook({ pool, clock, logger })({ findings, unsure, answering: 3, keys: 1 });

async function newKey({ isSpare = false } = {}): Promise<{ accountId: string; keyId: string }> {
  const accountId = await createAccount(pool, { name: 'Test', plan: 'starter' });
  const keyId = newId('ckey');
  await insertAccountKey(pool, {
    ...{ id: keyId, accountId: isSpare ? null : accountId, publicKey: '0x04', chainCode: '0x00' },
  });
  return { accountId, keyId };
}
const ban = (keyId: string): SignerFinding => ({ kind: 'signer_banned', party: 2, keyId, detail: 'it [cheated](x)' });
const away: SignerFinding = { kind: 'signer_unreachable', party: 3, keyId: null, detail: 'no answer in time' };
const alerts = async () => (await pool.query('select * from signer_alerts order by found_at, kind')).rows;
const auditOf = async (accountId: string) =>
  (await pool.query('select * from audit_inbox where account_id = $1 order by created_at, id', [accountId])).rows;

describe('what a look at the signers has found', () => {
  it('is an alert, a line of the log and an entry of the account whose key it is, once', async () => {
    const { accountId, keyId } = await newKey();
    const noted = await note([ban(keyId)]);
    expect(noted).toEqual({
      open: 1,
      named: [expect.stringMatching(/^Signer 2 is banned from key ckey_/)],
      isUntold: true,
    });
    // What a signer has said makes no link where it is shown.
    expect(noted.named[0]).not.toContain('](');
    for (minutes = 1; minutes < 10; minutes += 1) await note([ban(keyId)]);
    expect(await alerts()).toMatchObject([
      { kind: 'signer_banned', party: 2, key_id: keyId, closed_at: null, opened_at: new Date(start) },
    ]);
    expect(logged).toMatchObject([
      { level: 50, alert: 'signer_banned', party: 2, keyId, msg: `Signer 2 is banned from key ${keyId}` },
    ]);
    expect(await auditOf(accountId)).toMatchObject([
      {
        ...{ action: 'signer_alert.opened', actor_type: 'system', resource_type: 'account_key', resource_id: keyId },
        ...{ result: 'error', metadata: { kind: 'signer_banned', party: 2, detail: 'it [cheated](x)' } },
      },
    ]);
  });

  it('is over, for the log and the account as well, when it was not found for a while', async () => {
    const { accountId, keyId } = await newKey();
    await note([ban(keyId)]);
    minutes = 4;
    expect(await note([])).toMatchObject({ open: 1 });
    minutes = 5;
    expect(await note([])).toMatchObject({ open: 0, named: [], isUntold: true });
    expect(await alerts()).toMatchObject([{ closed_at: new Date(start + 5 * minuteMs) }]);
    expect(logged.at(-1)).toMatchObject({ level: 30, alert: 'signer_banned', msg: expect.stringMatching(/^over: /) });
    expect((await auditOf(accountId)).at(-1)).toMatchObject({ action: 'signer_alert.closed', result: 'success' });
    // And is another alert when it comes again.
    minutes = 6;
    await note([ban(keyId)]);
    expect(await alerts()).toHaveLength(2);
  });

  it('is told to nobody before it has lasted, and forgotten when it does not last', async () => {
    await note([away]);
    minutes = 4;
    expect(await note([away])).toMatchObject({ open: 0, isUntold: false });
    await note([]);
    expect(await alerts()).toEqual([]);
    await note([away]);
    minutes = 9;
    expect(await note([away])).toMatchObject({
      open: 1,
      named: ['Signer 3 does not answer: \u2068no answer in time\u2069.'],
    });
    expect(logged).toMatchObject([{ alert: 'signer_unreachable', party: 3, keyId: null }]);
  });

  it('stays open of what the look may have missed', async () => {
    const { keyId } = await newKey();
    await note([ban(keyId)]);
    minutes = 60;
    expect(await note([], ['signer_banned'])).toMatchObject({ open: 1 });
  });

  it('is of no interest about a key that nobody has been given, which may be made up', async () => {
    const { keyId, accountId } = await newKey({ isSpare: true });
    await note([ban('ckey_made_up'), ban(keyId)]);
    expect(await alerts()).toMatchObject([{ key_id: keyId }]);
    expect(await auditOf(accountId)).toEqual([]);
  });

  it('is noted once by several at once', async () => {
    const { accountId, keyId } = await newKey();
    await Promise.all(Array.from({ length: 8 }, () => note([ban(keyId)])));
    expect(await alerts()).toHaveLength(1);
    expect(await auditOf(accountId)).toHaveLength(1);
    expect(logged).toHaveLength(1);
  });

  it('is named as far as a person reads', async () => {
    const made = await Promise.all(Array.from({ length: 25 }, () => newKey()));
    const { open, named } = await note(made.map(({ keyId }) => ban(keyId)));
    expect([open, named.length]).toEqual([25, 20]);
  });

  it('is forgotten when it has been over for as long as the audit log is kept', async () => {
    const { keyId } = await newKey();
    await note([ban(keyId), away]);
    minutes = 5;
    await note([]);
    await pool.query(
      `update signer_alerts set closed_at = now() - interval '13 months' + interval '1 hour' where closed_at is not null`,
    );
    await forgetAlerts({ pool, logger, keepMonths: 13 });
    expect(await alerts()).toHaveLength(1);
    await forgetAlerts({ pool, logger, keepMonths: 12 });
    expect(await alerts()).toEqual([]);
  });
});

describe('new shares of a key', () => {
  it('are told to its account once for each epoch', async () => {
    const { accountId, keyId } = await newKey();
    const refreshed = createNoteKeyRefresh({ pool });
    for (const epoch of [1, 2, 2, 5, 4]) await refreshed({ keyId, epoch });
    expect(await auditOf(accountId)).toMatchObject([
      {
        ...{ action: 'account_key.refreshed', actor_type: 'system', resource_type: 'account_key', resource_id: keyId },
        ...{ result: 'success', changes: { before: { epoch: 1 }, after: { epoch: 2 } } },
      },
      { changes: { before: { epoch: 2 }, after: { epoch: 5 } } },
    ]);
    const { rows } = await pool.query('select epoch, refreshed_at from account_keys where id = $1', [keyId]);
    expect(rows).toEqual([{ epoch: 5, refreshed_at: expect.any(Date) }]);
  });

  it('are told to nobody for a spare key, or one that is not published', async () => {
    const { accountId, keyId } = await newKey({ isSpare: true });
    await createNoteKeyRefresh({ pool })({ keyId, epoch: 2 });
    await createNoteKeyRefresh({ pool })({ keyId: 'ckey_unknown', epoch: 2 });
    expect(await auditOf(accountId)).toEqual([]);
  });

  it('are told once by several at once', async () => {
    const { accountId, keyId } = await newKey();
    await Promise.all(Array.from({ length: 8 }, () => createNoteKeyRefresh({ pool })({ keyId, epoch: 2 })));
    expect(await auditOf(accountId)).toHaveLength(1);
  });
});
