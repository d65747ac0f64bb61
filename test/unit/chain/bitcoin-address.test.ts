import { createHash } from 'node:crypto';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { bech32, bech32m, createBase58check } from '@scure/base';
import { HDKey } from '@scure/bip32';
import fc from 'fast-check';
import { TronWeb } from 'tronweb';
import { describe, expect, it } from 'vitest';
import { bitcoinFamily } from '../../../shared/chain/bitcoin/family.ts';
import { parseBitcoinAddress, scriptOf } from '../../../shared/chain/bitcoin/parse-address.ts';
import { dustLimit } from '../../../shared/chain/bitcoin/size.ts';

const mainnet = 'bip122:000000000019d6689c085ae165831e93';
const testnet = 'bip122:000000000933ea01ad0ee984209779ba';
const regtest = 'bip122:0f9188f13cb7b2c71f2a335e3a4fc328';

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());
const base58check = createBase58check(sha256);
const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const read = (text: string, chain = mainnet) => {
  const result = parseBitcoinAddress(text, chain);
  return 'address' in result ? result.address : result.fault;
};

describe('a Bitcoin address', () => {
  it.each([
    ['P2PKH', '1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2', mainnet, '76a91477bff20c60e522dfaa3350c39b030a5d004e839a88ac'],
    ['P2SH', '3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy', mainnet, 'a914b472a266d0bd89c13706a4132ccfb16f7c3b9fcb87'],
    ['P2WPKH', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4', mainnet, '0014751e76e8199196d454941c45d1b3a323f1433bd6'],
    [
      'P2WSH',
      'tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7',
      testnet,
      '00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262',
    ],
    [
      'P2WSH with zeros in front',
      'tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy',
      testnet,
      '0020000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433',
    ],
    [
      'P2TR',
      'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0',
      mainnet,
      '512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
    ],
    [
      'P2TR of a test network',
      'tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c',
      testnet,
      '5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433',
    ],
  ])('may be one of %s', (_, address, chain, script) => {
    expect(read(address, chain)).toBe(address);
    expect(hexOf(scriptOf(address, chain))).toBe(script);
  });

  // Source: BIP-341, wallet test vectors, "scriptPubKey" (bip350Address).
  it.each([
    [
      'bc1p2wsldez5mud2yam29q22wgfh9439spgduvct83k3pm50fcxa5dps59h4z5',
      '512053a1f6e454df1aa2776a2814a721372d6258050de330b3c6d10ee8f4e0dda343',
    ],
    [
      'bc1pz37fc4cn9ah8anwm4xqqhvxygjf9rjf2resrw8h8w4tmvcs0863sa2e586',
      '5120147c9c57132f6e7ecddba9800bb0c4449251c92a1e60371ee77557b6620f3ea3',
    ],
    [
      'bc1punvppl2stp38f7kwv2u2spltjuvuaayuqsthe34hd2dyy5w4g58qqfuag5',
      '5120e4d810fd50586274face62b8a807eb9719cef49c04177cc6b76a9a4251d5450e',
    ],
  ])('of BIP-341 is read: %s', (address, script) => {
    expect(read(address)).toBe(address);
    expect(hexOf(scriptOf(address, mainnet))).toBe(script);
  });

  it('of SegWit is written in lower case, and never mixes both', () => {
    expect(read('BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4')).toBe('bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4');
    expect(parseBitcoinAddress('bc1qW508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4', mainnet)).toEqual({
      fault: 'malformed',
      sentence: 'must be all in lower case, or all in upper case (BIP-173).',
    });
  });

  it('of another network is refused with the names of both', () => {
    expect(parseBitcoinAddress('tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx', mainnet)).toEqual({
      fault: 'wrong_network',
      sentence: 'is an address of Bitcoin Testnet; this is Bitcoin.',
    });
    expect(parseBitcoinAddress('mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn', mainnet)).toEqual({
      fault: 'wrong_network',
      sentence: 'is an address of Bitcoin Testnet or Bitcoin Regtest; this is Bitcoin.',
    });
    expect(read('1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2', testnet)).toBe('wrong_network');
    expect(read('bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', testnet)).toBe('wrong_network');
    expect(read('tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx', regtest)).toBe('wrong_network');
    expect(read('mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn', regtest)).toBe('mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn');
    expect(read('mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn', testnet)).toBe('mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn');
  });

  // Source: BIP-173 and BIP-350, invalid addresses.
  it.each([
    ['checksum', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5'],
    ['checksum', 'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd'],
    ['checksum', 'BC1S0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ54WELL'],
    ['checksum', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh'],
    ['malformed', 'tc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq5zuyut'],
    ['malformed', 'bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4'],
    ['malformed', 'BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R'],
    ['malformed', 'bc1pw5dgrnzv'],
    ['malformed', 'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav253zgeav'],
    ['malformed', 'BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P'],
    ['malformed', 'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf'],
    ['malformed', 'bc1gmk9yu'],
    ['malformed', 'bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs'],
    ['malformed', 'bc1pfeessrawgf'],
    ['checksum', '1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3'],
    ['malformed', '1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVNl'],
    ['malformed', 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t'],
    ['malformed', '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF'],
    ['malformed', ' bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4'],
    ['malformed', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4\n'],
    ['malformed', 'satoshi@example.org'],
    ['malformed', 'bc1'],
    ['malformed', ''],
    ['zero', '1111111111111111111114oLvT2'],
  ])('is refused as %s: %j', (fault, text) => {
    expect(read(text)).toBe(fault);
  });

  it('of Taproot must have a key: five is the number of no point of the curve', () => {
    const program = new Uint8Array(32).fill(0, 0, 31).fill(5, 31);
    const address = bech32m.encode('bc', [1, ...bech32m.toWords(program)]);
    expect(parseBitcoinAddress(address, mainnet)).toEqual({
      fault: 'malformed',
      sentence: 'is a Taproot address without a key (BIP-341): what is sent there is lost.',
    });
  });

  const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
  const anyAddress = fc.oneof(
    bytes(20).map((hash) => base58check.encode(Uint8Array.from([0, ...hash]))),
    bytes(20).map((hash) => base58check.encode(Uint8Array.from([5, ...hash]))),
    fc
      .constantFrom(20, 32)
      .chain((length) => bytes(length).map((hash) => bech32.encode('bc', [0, ...bech32.toWords(hash)]))),
    bytes(32)
      .filter((seed) => secp256k1.utils.isValidSecretKey(seed))
      .map((seed) => secp256k1.getPublicKey(seed).subarray(1))
      .map((key) => bech32m.encode('bc', [1, ...bech32m.toWords(key)])),
  );

  it('of any kind is read as it is, and never with one character changed', () => {
    fc.assert(
      fc.property(
        anyAddress,
        fc.nat(),
        fc.constantFrom(...'qpzry9x8gf2tvdw0s3jn54khce6mua7l'),
        (address, at, other) => {
          expect(read(address)).toBe(address);
          const index = at % address.length;
          fc.pre(address[index]!.toLowerCase() !== other);
          expect(read(address.slice(0, index) + other + address.slice(index + 1))).not.toMatch(/^(bc1|1|3)/);
        },
      ),
    );
  });

  it('is at no time one of Tron', () => {
    fc.assert(
      fc.property(bytes(20), (hash) => {
        expect(read(TronWeb.address.fromHex(`41${hexOf(hash)}`))).toBe('malformed');
      }),
      { numRuns: 20 },
    );
  });

  it('may hold so much at least as Bitcoin Core passes on', () => {
    const dust = (address: string, chain = mainnet) => Number(dustLimit(address, chain));
    expect(dust('1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2')).toBe(546);
    expect(dust('3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy')).toBe(540);
    expect(dust('bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4')).toBe(294);
    expect(dust('tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7', testnet)).toBe(330);
    expect(dust('bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0')).toBe(330);
  });
});

describe("a wallet's Bitcoin address", () => {
  // Source: BIP-84, test vectors: mnemonic "abandon … about", account m/84'/0'/0'.
  const account = HDKey.fromExtendedKey(
    'zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs',
    { private: 0x04b2430c, public: 0x04b24746 },
  );
  const of = (path: string, chain: string) =>
    bitcoinFamily.deriveAddress({
      publicKey: `0x${hexOf(secp256k1.Point.fromBytes(account.publicKey!).toBytes(false))}`,
      chainCode: `0x${hexOf(account.chainCode!)}`,
      path,
      chain,
    });

  it('is that of BIP-84', () => {
    expect(of('m/0/0', mainnet)).toBe('bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu');
    expect(of('m/0/1', mainnet)).toBe('bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g');
    expect(of('m/1/0', mainnet)).toBe('bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el');
  });

  it('is of its chain alone, and readable there', () => {
    expect(of('m/0/0', regtest)).toMatch(/^bcrt1q/);
    for (const chain of [mainnet, testnet, regtest]) {
      expect(read(of('m/0/0', chain), chain)).toBe(of('m/0/0', chain));
      for (const other of [mainnet, testnet, regtest])
        expect(bitcoinFamily.sharesWallet(chain, other)).toBe(chain === other);
    }
    expect([mainnet, testnet, regtest].map((chain) => bitcoinFamily.coinType(chain))).toEqual([0, 1, 1]);
    expect(() => of('m/0/0', 'bip122:00')).toThrow(/^bip122:00 is not a Bitcoin chain/);
  });
});
