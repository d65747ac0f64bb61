import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readFreezes } from '../../shared/db/freezes.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { createInstallation } from '../../shared/installation.ts';
import { noteDatabase } from '../../shared/note-database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = createPool({ url: database.url, max: 4, application: 'test' });
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const start = () =>
  createInstallation({
    ...{ environment: 'sandbox' as const, secrets: [], pool },
    persistenceStore: async () => 'postgres12',
  }).database();
const isFrozen = async () => (await readFreezes(pool)).installation;

async function asOwner(sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: database.ownerUrl });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}

describe('a database that was restored elsewhere', () => {
  it('is not seen in one that stays where it is, however often services start', async () => {
    for (let starts = 0; starts < 3; starts += 1) expect(await start()).toEqual([]);
    expect(await noteDatabase(pool)).toBe(false);
    expect(await isFrozen()).toBe(false);
  });

  it.each([
    ['cluster', `regexp_replace(database_identity, '^[0-9]+', '7000000000000000001')`],
    ['timeline', `regexp_replace(database_identity, '/[0-9A-F]{8}/', '/000000AA/')`],
    ['database', `regexp_replace(database_identity, '[0-9]+$', '1')`],
  ])('freezes all before anything else when the %s is another one, once', async (_, other) => {
    await pool.query('delete from freezes');
    await asOwner(`update installation set database_identity = ${other}`);
    const before = (await readFreezes(pool)).version;
    // Several processes start at once.
    expect(await Promise.all([start(), start(), start()])).toEqual([[], [], []]);
    const { installation, version } = await readFreezes(pool);
    expect(installation).toBe(true);
    expect(version).toBeGreaterThan(before);
    const { rows } = await pool.query('select frozen_by, reason from freezes');
    expect(rows).toMatchObject([{ frozen_by: 'system', reason: expect.stringContaining('reconcile') }]);
    await pool.query('delete from freezes');
    expect(await noteDatabase(pool)).toBe(false);
    expect(await isFrozen()).toBe(false);
  });
});
