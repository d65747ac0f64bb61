import fc from 'fast-check';
import { checksumAddress, type Hex } from 'viem';
import { describe, expect, it } from 'vitest';
import { parseEvmAddress } from '../../../shared/chain/evm/parse-address.ts';

/** The address, or what is wrong with it. */
function parse(text: string): string {
  const read = parseEvmAddress(text);
  return 'address' in read ? read.address : read.fault;
}

describe('an EVM address', () => {
  it('is taken in lower case, in upper case and with its checksum, and always written with it', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 20, maxLength: 20 }), (bytes) => {
        fc.pre(bytes.some((byte) => byte !== 0));
        const lower = `0x${Buffer.from(bytes).toString('hex')}` as Hex;
        const right = checksumAddress(lower);
        expect(parse(lower)).toBe(right);
        expect(parse(`0x${lower.slice(2).toUpperCase()}`)).toBe(right);
        expect(parse(right)).toBe(right);
      }),
    );
  });

  it('is refused when one letter of a mixed-case one has the other case', () => {
    expect(parse('0x2b5AD5c4795c026514f8317c7a215E218DcCD6cF')).toBe('checksum');
  });

  it('is never the zero address', () => {
    expect(parse(`0x${'0'.repeat(40)}`)).toBe('zero');
  });

  it.each([
    '',
    '0x',
    '0X2B5AD5c4795c026514f8317c7a215E218DcCD6cF',
    '0x2B5A',
    ' 0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF',
    '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF\n',
    '0xg'.padEnd(42, '0'),
  ])('is not %j', (text) => {
    expect(parse(text)).toBe('malformed');
  });
});
