import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createClaimKey,
  createCountMissingKeys,
  createFindOwnerKey,
  createPublishKey,
} from '../../../activities/account-key.ts';
import { takeChildIndex } from '../../../shared/db/account-keys.ts';
import { createAccount } from '../../../shared/db/accounts.ts';
import { createPool, type Pool } from '../../../shared/db/pool.ts';
import { newId } from '../../../shared/ids.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';

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

const newAccount = () => createAccount(pool, { name: 'Test', plan: 'starter' });
const generated = () => ({ keyId: newId('ckey'), publicKey: '0x04', chainCode: '0x00' });

describe('account keys', () => {
  it('gives one spare key to one of many accounts that ask at once', async () => {
    const publish = createPublishKey({ pool });
    const spare = generated();
    await publish(null, spare);
    const accounts = await Promise.all(Array.from({ length: 8 }, newAccount));
    const claimed = await Promise.all(accounts.map(createClaimKey({ pool })));
    expect(claimed.filter((id) => id !== undefined)).toEqual([spare.keyId]);
  });

  it('gives an account the same key however often it asks, and keeps the first that is published', async () => {
    const account = await newAccount();
    const [claim, publish] = [createClaimKey({ pool }), createPublishKey({ pool })];
    expect(await claim(account)).toBeUndefined();
    const [first, second] = [generated(), generated()];
    await publish(account, first);
    await publish(account, first);
    await publish(account, second);
    await publish(null, generated());
    expect(await Promise.all([claim(account), claim(account)])).toEqual([first.keyId, first.keyId]);
  });

  it('gives no spare key to an account whose limits somebody sets, but one of its own', async () => {
    const ownerKey = 'o'.repeat(43);
    const limited = await createAccount(pool, { name: 'Limited', plan: 'starter', ownerKey });
    const [claim, publish, ownerOf] = [
      createClaimKey({ pool }),
      createPublishKey({ pool }),
      createFindOwnerKey({ pool }),
    ];
    await publish(null, generated());
    expect(await claim(limited)).toBeUndefined();
    expect(await ownerOf(limited)).toBe(ownerKey);
    const own = generated();
    await publish(limited, own);
    expect(await claim(limited)).toBe(own.keyId);
    const other = await newAccount();
    expect(await ownerOf(other)).toBeUndefined();
    expect(await claim(other)).toBeDefined();
  });

  it('counts what is missing of the spare keys', async () => {
    await pool.query('delete from account_keys where account_id is null');
    const missing = createCountMissingKeys({ pool, spareKeys: 2 });
    expect(await missing()).toBe(2);
    for (const left of [1, 0, 0]) {
      await createPublishKey({ pool })(null, generated());
      expect(await missing()).toBe(left);
    }
  });

  it('hands out each child index once', async () => {
    const account = await newAccount();
    await createPublishKey({ pool })(account, generated());
    const taken = await Promise.all(Array.from({ length: 20 }, () => takeChildIndex(pool, { accountId: account })));
    const indices = taken.map((key) => key!.next_index).sort((a, b) => a - b);
    expect(indices).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });
});
