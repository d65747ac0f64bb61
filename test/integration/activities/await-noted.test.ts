import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { awaitNoted } from '../../../activities/await-noted.ts';
import { takeHolds } from '../../../activities/take-holds.ts';
import type { EvmPrepared } from '../../../shared/chain/evm/prepared.ts';
import { storeAttempt } from '../../../shared/db/attempts.ts';
import { storeHead } from '../../../shared/db/chain-heads.ts';
import { createPool, inTransaction, type Pool } from '../../../shared/db/pool.ts';
import { insertSlot } from '../../../shared/db/slots.ts';
import { getTransaction } from '../../../shared/db/transactions.ts';
import { createTestDatabase, type TestDatabase } from '../../support/database.ts';
import { insertTestAgent, insertTestPayment, signedBytes, type TestAgent } from '../../support/rows.ts';

const chain = 'eip155:31337';
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

const prepared = (o: { atBlock: number; balanceMinor: string }): EvmPrepared => ({
  ...{ outcome: 'ready', minedCount: 0, gas: '21000', maxFeePerGasWei: '3', maxPriorityFeePerGasWei: '1' },
  ...{ maxFeeMinor: '63000', nativeBalanceMinor: '1000000000000000000', ...o },
});
const row = async (id: string) => (await getTransaction(pool, { id }))!;

/** A payment of 1 USDC that was sent and whose money is held, and another one of as much. */
async function sentAndNext(agent: TestAgent) {
  const [sent, next] = [await insertTestPayment(pool, agent), await insertTestPayment(pool, agent)];
  const before = prepared({ atBlock: 5, balanceMinor: '2000000' });
  expect(await inTransaction(pool, async (db) => takeHolds(db, { row: await row(sent), prepared: before }))).toBe(
    undefined,
  );
  const payload = { kind: 'evm-transaction' } as Parameters<typeof insertSlot>[1]['payload'];
  await insertSlot(pool, { walletId: agent.walletId, chain, nonce: 0, transactionId: sent, payload });
  await storeAttempt(pool, {
    transactionId: sent,
    hash: `0x${sent}`,
    raw: signedBytes,
    purpose: 'payment',
    version: 1,
  });
  await storeHead(pool, { chain, number: 5, hash: '0x5' });
  return { sent, next: await row(next) };
}
async function note(id: string, number: number): Promise<void> {
  await pool.query(
    `update attempts set block_number = $2, block_hash = '0xb', succeeded = true where transaction_id = $1`,
    [id, number],
  );
  await pool.query('update transactions set block_number = $2 where id = $1', [id, number]);
  await storeHead(pool, { chain, number, hash: `0x${number}` });
}

describe('a balance of a block that the watcher has not read', () => {
  it('is not believed to be too little until the payments in that block are noted', async () => {
    const { sent, next } = await sentAndNext(await insertTestAgent(pool));
    // The block has the first payment: its million is gone from the balance, and still held.
    const seen = prepared({ atBlock: 6, balanceMinor: '1000000' });
    expect(await takeHolds(pool, { row: next, prepared: seen })).toMatchObject({ mayPass: false });
    let isOver = false;
    const waiting = awaitNoted(pool, { row: next, prepared: seen }).then(() => {
      isOver = true;
    });
    await pool.query('select pg_sleep(0.3)');
    expect(isOver).toBe(false);
    await note(sent, 6);
    await waiting;
    expect(await takeHolds(pool, { row: next, prepared: seen })).toBeUndefined();
  });

  it('is tried again later when the watcher stays behind', async () => {
    const { next } = await sentAndNext(await insertTestAgent(pool));
    await expect(
      awaitNoted(pool, { row: next, prepared: prepared({ atBlock: 6, balanceMinor: '1000000' }) }),
    ).rejects.toThrow(/^The balance is of block 6, and what payments took there is not known yet\.$/);
  });

  it('is believed at once where it is enough, where that block is noted, and where nothing was sent', async () => {
    const agent = await insertTestAgent(pool);
    const { next } = await sentAndNext(agent);
    // None of them is refused, as each would be that waited.
    await awaitNoted(pool, { row: next, prepared: prepared({ atBlock: 9, balanceMinor: '2000000' }) });
    await awaitNoted(pool, { row: next, prepared: prepared({ atBlock: 5, balanceMinor: '1000000' }) });
    const other = await row(await insertTestPayment(pool, await insertTestAgent(pool)));
    await awaitNoted(pool, { row: other, prepared: prepared({ atBlock: 9, balanceMinor: '1' }) });
  });
});
