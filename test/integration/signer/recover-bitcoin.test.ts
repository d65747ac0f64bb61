import { secp256k1 } from '@noble/curves/secp256k1.js';
import { p2wpkh, TEST_NETWORK } from '@scure/btc-signer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ChainAdapter } from '../../../shared/chain/adapter.ts';
import { createChainAdapter } from '../../../shared/chain/create-adapter.ts';
import { createRegistry } from '../../../shared/chain/registry.ts';
import { sweepBitcoinWallet } from '../../../signer/recover/sweep-bitcoin.ts';
import type { WalletTransfer } from '../../../signer/recover/wallet-transfer.ts';
import type { RecoveredWallet } from '../../../signer/recover/wallets.ts';
import { startTestBitcoin, type TestBitcoin } from '../../support/btcd.ts';
import { readBitcoin } from '../../support/read-bitcoin.ts';

describe('a recovered Bitcoin wallet', () => {
  let bitcoin: TestBitcoin;
  let adapter: ChainAdapter;
  beforeAll(async () => {
    bitcoin = await startTestBitcoin();
    const registry = createRegistry({ environment: 'sandbox', enabled: [bitcoin.chain] });
    adapter = createChainAdapter({ chain: registry.chain(bitcoin.chain)!, urls: [bitcoin.url] });
  });
  afterAll(() => bitcoin?.stop());

  function newWallet(): RecoveredWallet {
    const { secretKey, publicKey } = secp256k1.keygen();
    const { address } = p2wpkh(publicKey, { ...TEST_NETWORK, bech32: 'bcrt' });
    return { path: 'm/44/1/0/0/0', address, privateKey: secretKey };
  }
  const sweep = async (wallet: RecoveredWallet, o: { to: string; satPerKvb?: bigint; send?: boolean }) => {
    const transfers: WalletTransfer[] = [];
    for await (const each of sweepBitcoinWallet(adapter, wallet, { satPerKvb: undefined, send: false, ...o }))
      transfers.push(each);
    return transfers;
  };
  const heldBy = async (address: string) => {
    const { data } = await adapter.balances({ owner: address });
    return 'amountMinor' in data[0]! ? data[0].amountMinor : undefined;
  };
  const fill = (wallet: RecoveredWallet, values: bigint[]) =>
    bitcoin.pay(values.map((valueSat) => ({ address: wallet.address, valueSat })));

  it('is emptied of all its coins in as many transactions as they need, to the last satoshi', async () => {
    const [wallet, to] = [newWallet(), newWallet().address];
    await fill(
      wallet,
      Array.from({ length: 60 }, (_, index) => 10_000n + BigInt(index)),
    );
    const totalSat = 60n * 10_000n + (59n * 60n) / 2n;
    const told = await sweep(wallet, { to, satPerKvb: 3000n });
    expect(told).toHaveLength(2);
    expect(told.every(({ hash, problem }) => hash === undefined && problem === undefined)).toBe(true);
    expect(await heldBy(to)).toBe(0n);

    const sent = await sweep(wallet, { to, satPerKvb: 3000n, send: true });
    expect(sent.map(({ hash: _, ...rest }) => rest)).toEqual(told);
    for (const { hash, feeMinor } of sent) {
      const raw = await bitcoin.rpc<string>('getrawtransaction', hash, 0);
      const vsize = BigInt(Math.ceil(readBitcoin(raw).weight / 4));
      expect(BigInt(feeMinor)).toBeGreaterThanOrEqual(3n * vsize);
      expect(BigInt(feeMinor)).toBeLessThan(3n * (vsize + 40n));
    }
    await bitcoin.mine();
    const feesSat = sent.reduce((sum, { feeMinor }) => sum + BigInt(feeMinor), 0n);
    expect(await heldBy(wallet.address)).toBe(0n);
    expect(await heldBy(to)).toBe(totalSat - feesSat);
    expect(await sweep(wallet, { to, send: true })).toEqual([]);
  });

  it('pays what is asked where no rate is given, and keeps what costs more than it brings', async () => {
    const [wallet, to] = [newWallet(), newWallet().address];
    await fill(wallet, [50_000n, 700n]);
    const [transfer, dust] = await sweep(wallet, { to, satPerKvb: 20_000n });
    expect(transfer).toMatchObject({ asset: 'native', amountMinor: String(50_000 - 110 * 20), feeMinor: '2200' });
    expect(dust).toMatchObject({ amountMinor: '0', problem: '700 sat are less than the transfer would cost' });
    const [asked] = await sweep(wallet, { to, send: true });
    expect(asked!.problem).toBeUndefined();
    expect(await sweep(wallet, { to })).toMatchObject([
      { problem: 'its coins are being spent already: repeat when that is in a block' },
    ]);
  });

  it('is passed by where it is empty, or where the money goes', async () => {
    const wallet = newWallet();
    expect(await sweep(wallet, { to: newWallet().address })).toEqual([]);
    await fill(wallet, [50_000n]);
    expect(await sweep(wallet, { to: wallet.address, send: true })).toEqual([]);
  });
});
