import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createFindLostWallets, type LostWallets } from '../../../activities/find-lost-wallets.ts';
import type { Chains } from '../../../shared/chain/adapter.ts';
import { familyOf } from '../../../shared/chain/families.ts';
import { insertAccountKey } from '../../../shared/db/account-keys.ts';
import { createAccount } from '../../../shared/db/accounts.ts';
import { insertAgent, insertWallet } from '../../../shared/db/agents.ts';
import { secureKeys } from '../../../shared/db/restored.ts';
import { newId } from '../../../shared/ids.ts';
import { type ChainWorld, createChainWorld } from '../../support/chain-world.ts';

/** Public halves of a key that nobody has to hold: nothing is signed here. */
const publicKey =
  '0x0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8';
const chainCode = `0x${'11'.repeat(32)}`;

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

let world: ChainWorld;
let chains: Chains;
let accountId: string;
let keyId: string;
beforeAll(async () => {
  world = await createChainWorld();
  chains = new Map([[world.chain.id, world.adapter()]]);
});
afterAll(() => world?.close());
/** An account whose key has an agent at the first two children, and has given out no other ones as far as is known. */
beforeEach(async () => {
  await world.pool.query('update account_keys set account_id = null, retired_at = now()');
  accountId = await createAccount(world.pool, { name: 'Test', plan: 'starter' });
  keyId = newId('ckey');
  // Each key has children of its own.
  const ownCode = `0x${Buffer.from(keyId.padEnd(32, '-').slice(-32)).toString('hex')}`;
  await insertAccountKey(world.pool, { id: keyId, accountId, publicKey, chainCode: ownCode });
  for (const index of [0, 1]) {
    const id = newId('agent');
    const names = { agentDescription: undefined, metadata: undefined };
    await insertAgent(world.pool, { id, accountId, agentName: `agent ${index}`, ...names, chain: world.chain.id });
    const wallet = { accountKeyId: keyId, path: pathOf(index), address: await addressOf(index) };
    await insertWallet(world.pool, { id: newId('wal'), agentId: id, ...wallet });
  }
  await world.pool.query('update account_keys set next_index = 2 where id = $1', [keyId]);
});

const pathOf = (index: number) => `m/44/60/0/0/${index}`;
async function addressOf(index: number): Promise<string> {
  const { rows } = await world.pool.query('select chain_code from account_keys where id = $1', [keyId]);
  const whole = { publicKey, chainCode: rows[0].chain_code ?? chainCode } as const;
  return familyOf(world.chain.id).deriveAddress({ ...whole, path: pathOf(index), chain: world.chain.id });
}
const fund = async (index: number, eth: bigint) =>
  world.node.setBalance({ address: (await addressOf(index)) as `0x${string}`, value: eth * 10n ** 18n });
async function find({ dryRun = false, from = chains, leaveOut = [] as string[] } = {}): Promise<LostWallets> {
  const inActivity = new MockActivityEnvironment(undefined, { logger: new DefaultLogger('ERROR') });
  return inActivity.run(createFindLostWallets({ pool: world.pool, chains: from }), { dryRun, after: '', leaveOut });
}
async function agents() {
  const { rows } = await world.pool.query(
    `select a.id, a.status, w.path, w.address from agents a join wallets w on w.agent_id = a.id
     where a.account_id = $1 order by split_part(w.path, '/', 6)::int`,
    [accountId],
  );
  return rows;
}
const nextIndex = async () =>
  (await world.pool.query('select next_index from account_keys where id = $1', [keyId])).rows[0].next_index;

describe('wallets that were lost before they paid anything', () => {
  it('are given agents again where they hold money, inactive ones, and nothing is given to the empty ones', async () => {
    await fund(3, 2n);
    await fund(20, 1n);
    const before = await agents();
    const dry = await find({ dryRun: true });
    expect(dry.findings.map(({ what, id }) => [what, id])).toEqual([
      ['wallet_found', ''],
      ['wallet_found', ''],
    ]);
    expect(dry.findings[0]!.detail).toContain(await addressOf(3));
    expect(await agents()).toEqual(before);

    const { findings, next, unread } = await find();
    expect([next, unread]).toEqual([null, []]);
    const after = await agents();
    expect(after.slice(0, 2)).toEqual(before);
    expect(after.slice(2)).toEqual([
      { id: findings[0]!.id, status: 'inactive', path: pathOf(3), address: await addressOf(3) },
      { id: findings[1]!.id, status: 'inactive', path: pathOf(20), address: await addressOf(20) },
    ]);
    expect(findings[0]!.detail).toContain(`holds 2 ETH on ${world.chain.name}`);
    expect(await nextIndex()).toBe(21);
    await secureKeys(world.pool, { skip: 1_000, now: new Date() });
    expect(await find()).toMatchObject({ findings: [] });
    expect(await nextIndex()).toBe(1_021);
  });

  it('are found later as well, when money comes, and once by two who look at once', async () => {
    await secureKeys(world.pool, { skip: 1_000, now: new Date() });
    expect((await find()).findings).toEqual([]);
    await fund(2, 5n);
    const both = await Promise.all([find(), find()]);
    const ids = both.flatMap(({ findings }) => findings.map(({ id }) => id));
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(1);
    expect(await agents()).toHaveLength(3);
    expect(await nextIndex()).toBe(1_002);
  });

  it('are not looked for on a chain that does not answer, which is told', async () => {
    await fund(2, 5n);
    const away: Chains = new Map([[world.chain.id, world.adapter({ urls: ['http://127.0.0.1:1'] })]]);
    expect(await find({ from: away })).toEqual({ findings: [], next: null, unread: [world.chain.id] });
    expect(await find({ leaveOut: [world.chain.id] })).toMatchObject({ findings: [], unread: [world.chain.id] });
    expect(await agents()).toHaveLength(2);
  });
});
