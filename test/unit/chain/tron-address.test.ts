import { secp256k1 } from '@noble/curves/secp256k1.js';
import { HDKey } from '@scure/bip32';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseTronAddress, tronAddressBytes, writeTronAddress } from '../../../shared/chain/tron/address.ts';
import { tronFamily } from '../../../shared/chain/tron/family.ts';
import { readTransferData, transferData } from '../../../shared/chain/tron/transfer-data.ts';
import { signerOf } from '../../support/tron-bytes.ts';

const usdt = 'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t';
const hash = fc
  .uint8Array({ minLength: 20, maxLength: 20 })
  .filter((bytes) => bytes.some((byte) => byte !== 0))
  .map((bytes) => Uint8Array.of(0x41, ...bytes));

describe('an address of Tron', () => {
  it('is read as it is written, whatever its 20 bytes', () => {
    fc.assert(
      fc.property(hash, (bytes) => {
        const address = writeTronAddress(bytes);
        expect(address).toMatch(/^T[1-9A-HJ-NP-Za-km-z]{33}$/);
        expect(parseTronAddress(address)).toEqual({ address });
        expect(tronAddressBytes(address)).toEqual(bytes);
      }),
    );
  });

  it('of USDT on the mainnet is the one of its published bytes', () => {
    expect(writeTronAddress(Buffer.from('41a614f803b6fd780986a42c78ec9c7f77e6ded13c', 'hex'))).toBe(usdt);
  });

  it('with one digit mistyped is refused for its checksum, wherever the digit stands', () => {
    const digits = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
    fc.assert(
      fc.property(hash, fc.integer({ min: 1, max: 33 }), fc.constantFrom(...digits), (bytes, at, digit) => {
        const address = writeTronAddress(bytes);
        fc.pre(address[at] !== digit);
        const mistyped = address.slice(0, at) + digit + address.slice(at + 1);
        expect(parseTronAddress(mistyped)).toMatchObject({ fault: 'checksum' });
      }),
    );
  });

  it.each([
    ['the zero address', 'T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb', 'zero', 'is the zero address'],
    ['hexadecimal form', '41a614f803b6fd780986a42c78ec9c7f77e6ded13c', 'malformed', 'hexadecimal form'],
    ['hexadecimal form with 0x', '0x41a614f803b6fd780986a42c78ec9c7f77e6ded13c', 'malformed', 'hexadecimal form'],
    ['an address of Ethereum', '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF', 'malformed', 'must be T and 33 more'],
    ['a legacy address of Bitcoin', '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa', 'wrong_network', 'begin with T'],
    ['a native address of Bitcoin', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4', 'malformed', 'must be T'],
    ['nothing', '', 'malformed', 'must be T'],
    ['space around it', ` ${usdt}`, 'malformed', 'must be T'],
    ['a digit too few', usdt.slice(0, -1), 'checksum', 'wrong checksum'],
  ])('is not %s', (_, text, fault, words) => {
    expect(parseTronAddress(text)).toEqual({ fault, sentence: expect.stringContaining(words) });
  });

  it('of a wallet is that of its key, whatever the account and the path', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        fc.integer({ min: 0, max: 2 ** 31 - 1 }),
        (seed, index) => {
          const account = HDKey.fromMasterSeed(seed);
          const path = `m/44/195/0/0/${index}`;
          const child = account.derive(path);
          const address = tronFamily.deriveAddress({
            publicKey: `0x${Buffer.from(secp256k1.Point.fromBytes(account.publicKey!).toBytes(false)).toString('hex')}`,
            chainCode: `0x${Buffer.from(account.chainCode!).toString('hex')}`,
            path,
            chain: 'tron:0xcd8690dc',
          });
          expect(address).toBe(addressOfKey(child.privateKey!));
        },
      ),
      { numRuns: 20 },
    );
  });

  it('of the key 1 is the one that everybody knows', () => {
    expect(addressOfKey(Uint8Array.from({ length: 32 }, (_, at) => (at === 31 ? 1 : 0)))).toBe(
      'TMVQGm1qAQYVdetCeGRRkTWYYrLXuHK2HC',
    );
  });
});

describe('call data of a transfer', () => {
  it('says to whom and how much, as it was told', () => {
    fc.assert(
      fc.property(hash, fc.bigInt({ min: 0n, max: (1n << 256n) - 1n }), (bytes, amountMinor) => {
        const to = writeTronAddress(bytes);
        const data = transferData({ to, amountMinor });
        expect(data).toMatch(/^a9059cbb0{24}[0-9a-f]{104}$/);
        expect(readTransferData(data)).toEqual({ to, amountMinor });
      }),
    );
  });

  it('holds no amount that would not fit', () => {
    expect(() => transferData({ to: usdt, amountMinor: 1n << 256n })).toThrow('256 bits');
    expect(() => transferData({ to: usdt, amountMinor: -1n })).toThrow('256 bits');
  });

  it.each([
    'a9059cbb',
    `a9059cbc${'0'.repeat(128)}`,
    `a9059cbb${'0'.repeat(130)}`,
    `a9059cbb${'1'.repeat(128)}`,
    // Another prefix than that of an address, where some wallets write one.
    `a9059cbb${'0'.repeat(22)}42${'0'.repeat(104)}`,
  ])('is not %s', (data) => {
    expect(readTransferData(data)).toBeUndefined();
  });
});

/** By another way than the service's: the library of the double. */
function addressOfKey(privateKey: Uint8Array): string {
  const id = 'ab'.repeat(32);
  const recovered = secp256k1.sign(Buffer.from(id, 'hex'), privateKey, { prehash: false, format: 'recovered' });
  return signerOf(id, Uint8Array.of(...recovered.subarray(1), recovered[0]!))!;
}
