import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sweepTronWallet } from '../../../signer/recover/sweep-tron.ts';
import type { WalletTransfer } from '../../../signer/recover/wallet-transfer.ts';
import { createTronWorld, newTronWallet, type TronWallet, type TronWorld } from '../../support/tron-world.ts';

const trx = 1_000_000n;

describe('a recovered Tron wallet', () => {
  let world: TronWorld;
  beforeAll(async () => {
    world = await createTronWorld({ nodes: 1 });
    world.nodes[0]!.produceEvery(20);
  });
  afterAll(() => world?.stop());

  const sweep = async ({ address, key }: TronWallet, o: { to: string; send?: boolean }) => {
    const wallet = { path: 'm/44/195/0/0/0', address, privateKey: Buffer.from(key.slice(2), 'hex') };
    const transfers: WalletTransfer[] = [];
    for await (const each of sweepTronWallet(world.adapter(), wallet, { send: false, ...o })) transfers.push(each);
    return transfers;
  };
  const heldBy = async (owner: string) =>
    (await world.adapter().balances({ owner })).data.map((each) => 'amountMinor' in each && each.amountMinor);

  it('is emptied of its tokens, and then of the TRX that these have left', async () => {
    const wallet = world.wallet({ trx: 100n * trx, usdt: 7_000_000n });
    const to = newTronWallet().address;
    const told = await sweep(wallet, { to });
    expect(told).toMatchObject([{ asset: world.usdt.asset, amountMinor: '7000000' }, { asset: 'native' }]);
    expect(told.some((each) => each.problem ?? each.hash)).toBe(false);
    expect(await heldBy(wallet.address)).toEqual([100n * trx, 7_000_000n]);

    const [usdt, native] = await sweep(wallet, { to, send: true });
    expect([usdt!.problem, native!.problem]).toEqual([undefined, undefined]);
    // What the first was told to cost at most, it did not: the rest goes as well.
    expect(BigInt(native!.amountMinor)).toBeGreaterThan(BigInt(told[1]!.amountMinor));
    expect(await heldBy(to)).toEqual([BigInt(native!.amountMinor), 7_000_000n]);
    const [leftSun, leftUsdt] = await heldBy(wallet.address);
    expect(leftUsdt).toBe(0n);
    expect(leftSun).toBeLessThanOrEqual(BigInt(native!.feeMinor));
  });

  it('is emptied to an account that is there already, whose transfer is paid for by its bytes', async () => {
    const wallet = world.wallet({ trx: 100n * trx });
    const to = world.wallet({ trx }).address;
    const [native] = await sweep(wallet, { to, send: true });
    expect(native!.problem).toBeUndefined();
    expect(BigInt(native!.amountMinor) + BigInt(native!.feeMinor)).toBe(100n * trx);
    expect((await heldBy(to))[0]).toBe(trx + BigInt(native!.amountMinor));
  });

  it('says what it cannot pay for, and is passed by where it is empty or where the money goes', async () => {
    const to = newTronWallet().address;
    expect(await sweep(world.wallet({ trx: 0n }), { to, send: true })).toEqual([]);
    const own = world.wallet({ trx: 100n * trx });
    expect(await sweep(own, { to: own.address, send: true })).toEqual([]);
    const [usdt, native] = await sweep(world.wallet({ trx: trx / 2n, usdt: 1n }), { to, send: true });
    expect(usdt).toMatchObject({ asset: world.usdt.asset, problem: expect.stringMatching(/TRX/) });
    expect(native).toMatchObject({ asset: 'native', problem: expect.any(String) });
  });
});
