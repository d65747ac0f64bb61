import { MockActivityEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createReadGas } from '../../activities/read-gas.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { insertTestAgent } from '../support/rows.ts';
import { createTronWorld, prepareReady, type TronWorld } from '../support/tron-world.ts';

const trx = 1_000_000n;

describe('coins for fees on Tron', () => {
  let world: TronWorld;
  let database: TestDatabase;
  let pool: Pool;
  beforeAll(async () => {
    [world, database] = await Promise.all([createTronWorld(), createTestDatabase()]);
    pool = createPool({ url: database.url, application: 'test' });
  });
  afterAll(async () => {
    await pool?.end();
    await Promise.all([database?.drop(), world?.stop()]);
  });

  it('are counted in transfers at the energy of a new holder, as prices and the ceiling are', async () => {
    const adapter = world.adapter();
    // 131,000 energy at 100 sun, 345 bytes at 1,000 sun.
    expect(await adapter.transferFee()).toBe(13_445_000n);
    expect(await world.adapter({ maxFeeSun: 5n * trx }).transferFee()).toBe(5n * trx);
    const payer = world.wallet({ trx: 1_000n * trx, usdt: 500n });
    const prepared = await prepareReady(adapter, {
      ...{ from: payer.address, to: 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8', token: world.usdt, amountMinor: 7n },
    });
    expect(await adapter.transferFee()).toBeGreaterThanOrEqual((BigInt(prepared.maxFeeMinor) * 3n) / 4n);
  });

  it('are read, and tell of a wallet with USDT and too few of them', async () => {
    const [low, rich] = [world.wallet({ trx: 20n * trx, usdt: 5n }), world.wallet({ trx: 100n * trx, usdt: 5n })];
    for (const { address } of [low, rich]) {
      const { agentId, walletId } = await insertTestAgent(pool);
      await pool.query('update agents set chain = $2 where id = $1', [agentId, world.chain.id]);
      await pool.query('update wallets set address = $2 where id = $1', [walletId, address]);
    }
    const chains = new Map([[world.chain.id, world.adapter()]]);
    const input = { chain: world.chain.id };
    const read = await new MockActivityEnvironment().run(createReadGas({ pool, chains, lowTransfers: 5 }), input);
    expect(read).toEqual({ ...input, read: 2, low: 1, failed: 0 });
    const { rows } = await pool.query(`select data from events where type = 'agent.low_gas'`);
    expect(rows).toMatchObject([
      { data: { address: low.address, token: 'TRX', balance: '20', transfer_cost: '13.445', transfers_left: 1 } },
    ]);
  });
});
