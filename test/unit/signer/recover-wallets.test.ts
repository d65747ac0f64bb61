import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HDKey } from '@scure/bip32';
import { afterAll, describe, expect, it } from 'vitest';
import { convertPoint } from '../../../shared/chain/derive-public-key.ts';
import { readOptions } from '../../../signer/recover/options.ts';
import { deriveWallets } from '../../../signer/recover/wallets.ts';

const bitcoin = 'bip122:000000000019d6689c085ae165831e93';
const testnet = 'bip122:000000000933ea01ad0ee984209779ba';
const tron = 'tron:0x2b6653dc';

describe('the wallets of a recovered key', () => {
  // Source: BIP-32, test vector 1, chain m/0'/1 (a key of its own here).
  const node = HDKey.fromMasterSeed(Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex')).derive("m/0'/1");
  const key = {
    privateKey: Uint8Array.from(node.privateKey!),
    chainCode: node.chainCode!,
    publicKey: convertPoint(node.publicKey!, 'uncompressed'),
  };
  const addressesOf = (chain: string, path: string) =>
    deriveWallets(key, { chain, path, indexes: { first: 0, last: 1 } }).map((wallet) => [wallet.path, wallet.address]);

  it('have the addresses of their chain, from the key and from its public half alike', () => {
    expect(addressesOf('eip155:1', 'm/44/60/0/0')[1]).toEqual([
      'm/44/60/0/0/1',
      expect.stringMatching(/^0x[\dA-Fa-f]{40}$/),
    ]);
    expect(addressesOf(bitcoin, 'm/44/0/0/0')[1]).toEqual(['m/44/0/0/0/1', expect.stringMatching(/^bc1q/)]);
    expect(addressesOf(testnet, 'm/44/1/0/0')[0]).toEqual(['m/44/1/0/0/0', expect.stringMatching(/^tb1q/)]);
    expect(addressesOf(tron, 'm/44/195/0/0')[0]).toEqual(['m/44/195/0/0/0', expect.stringMatching(/^T/)]);
  });

  it('can sign for them', () => {
    const [wallet] = deriveWallets(key, { chain: bitcoin, path: 'm/44/0/0/0', indexes: { first: 7, last: 7 } });
    expect(wallet!.privateKey).toEqual(node.derive('m/44/0/0/0/7').privateKey);
  });
});

describe('the command line of a recovery', () => {
  const home = mkdtempSync(join(tmpdir(), 'purser-recover-'));
  const identity = join(home, 'identity');
  writeFileSync(identity, `AGE-SECRET-KEY-1${'Q'.repeat(58)}\n`);
  afterAll(() => rmSync(home, { recursive: true, force: true }));
  const read = (...args: string[]) => readOptions(['--backup', 'a', '--backup', 'b', '--identity', identity, ...args]);
  const to = {
    evm: '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF',
    bitcoin: 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4',
  };
  const rpc = ['--rpc', 'http://127.0.0.1:1'];

  it('is about EVM chains, or about one of Bitcoin or Tron, each with its path', () => {
    expect(read()).toMatchObject({ chainId: 'eip155:1', path: 'm/44/60/0/0', sweep: undefined });
    expect(read('--chain', bitcoin)).toMatchObject({ chain: { name: 'Bitcoin' }, path: 'm/44/0/0/0' });
    expect(read('--chain', testnet)).toMatchObject({ path: 'm/44/1/0/0' });
    expect(read('--chain', tron)).toMatchObject({ path: 'm/44/195/0/0' });
    expect(read('--chain', tron, '--path', 'm/1')).toMatchObject({ path: 'm/1' });
    expect(() => read('--chain', 'eip155:1')).toThrow(/^leave --chain eip155:1 out/);
    expect(() => read('--chain', 'bip122:00')).toThrow(/^Chain bip122:00 is not known/);
  });

  it('says where the money goes, in an address of that chain, and what that may cost', () => {
    const upper = to.bitcoin.toUpperCase();
    expect(read('--chain', bitcoin, '--to', upper, ...rpc, '--fee-rate', '12.5').sweep).toEqual({
      rpcUrl: rpc[1],
      to: to.bitcoin,
      tokens: [],
      reserveWei: 0n,
      satPerKvb: 12_500n,
      send: false,
    });
    expect(read('--to', to.evm, ...rpc, '--reserve', '5', '--send').sweep).toMatchObject({
      reserveWei: 5n,
      send: true,
    });
    expect(() => read('--to', to.bitcoin, ...rpc)).toThrow(/^--to bc1q\w+ must be 0x and 40 hexadecimal digits\.$/);
    expect(() => read('--chain', testnet, '--to', to.bitcoin, ...rpc)).toThrow(/this is Bitcoin Testnet\.$/);
    for (const rate of ['0', '0.9', '1001', '1.2345', 'x'])
      expect(() => read('--chain', bitcoin, '--to', to.bitcoin, ...rpc, '--fee-rate', rate)).toThrow(
        /^--fee-rate must be/,
      );
  });

  it('takes of a chain only what it has', () => {
    expect(() => read('--fee-rate', '5')).toThrow('--fee-rate is nothing that an EVM chain has');
    expect(() => read('--chain', bitcoin, '--token', to.evm)).toThrow(`--token is nothing that ${bitcoin} has`);
    expect(() => read('--chain', tron, '--reserve', '5')).toThrow(`--reserve is nothing that ${tron} has`);
    expect(() => read('--send')).toThrow('--send needs --to and --rpc');
    expect(() => read('--to', to.evm)).toThrow('--to and --rpc go together');
  });
});
