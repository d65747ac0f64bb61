import { afterAll, beforeAll, expect, it } from 'vitest';
import { checkState } from '../../api/admin/doctor/state.ts';
import { freeze } from '../../shared/db/freezes.ts';
import { createPool, inTransaction, type Pool } from '../../shared/db/pool.ts';
import { insertAlert } from '../../shared/db/signer-alerts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { insertTestAgent, insertTestPayment } from '../support/rows.ts';

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, application: 'test' });
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const found = async () =>
  Object.groupBy(
    (await checkState(pool)).filter(({ status }) => status !== 'ok'),
    ({ check }) => check,
  );

it('the doctor finds nothing in a new installation, and then what is wrong, with the value and what to do', async () => {
  await expect.poll(found, { timeout: 120_000 }).toEqual({});

  const now = new Date();
  for (const [kind, ageMs] of [
    ['signer_banned', 2],
    ['backup_missing', 1],
  ] as const) {
    const finding = { kind, party: 2, keyId: 'ckey_1', detail: 'the message lied' } as const;
    await insertAlert(pool, { finding, opens: true, now: new Date(now.getTime() - ageMs) });
  }
  const unopened = { kind: 'signer_unreachable', party: 3, keyId: null, detail: 'a moment ago' } as const;
  await insertAlert(pool, { finding: unopened, opens: false, now });
  await inTransaction(pool, (db) => freeze(db, { scope: 'installation', reason: 'odd payments', by: 'operator' }));
  const agent = await insertTestAgent(pool);
  const [still] = [await insertTestPayment(pool, agent), await insertTestPayment(pool, agent)];
  await pool.query(`update transactions set updated_at = now() - interval '2 hours' where id = $1`, [still]);
  await pool.query(
    `insert into audit_inbox (id, account_id, actor_type, actor_id, action, resource_type, resource_id, result, metadata, created_at)
     select 'audit_old', $1, 'system', 'test', 'account.updated', 'account', $1, 'success', '{}', now() - interval '1 hour'`,
    [agent.accountId],
  );

  await expect.poll(found, { timeout: 120_000 }).toEqual({
    'keys of the signers': [
      {
        ...{ check: 'keys of the signers', status: 'wrong' },
        detail: expect.stringMatching(
          /^Signer 2 is banned from key ckey_1, since .*the message lied.*signers -- unban/,
        ),
      },
      {
        ...{ check: 'keys of the signers', status: 'wrong' },
        detail: expect.stringMatching(/^Signer 2 has no current backup.*signers -- backup/),
      },
    ],
    freezes: [
      {
        ...{ check: 'freezes', status: 'warning' },
        detail: expect.stringMatching(/frozen by its operator.*odd payments.*admin -- unfreeze/),
      },
      { check: 'freezes', status: 'warning', detail: expect.stringContaining('not all three signers') },
    ],
    'payments under way': [
      {
        ...{ check: 'payments under way', status: 'warning' },
        detail: expect.stringMatching(/^2; one on eip155:31337 has been in state created for \d+ s, where 900 s/),
      },
    ],
    'audit log': [
      {
        ...{ check: 'audit log', status: 'wrong' },
        detail: expect.stringMatching(/^1 entries wait .* oldest for \d+ s, where 300 s are long/),
      },
    ],
  });
});
