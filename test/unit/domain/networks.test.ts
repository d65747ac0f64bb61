import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isInNetworks, readNetwork } from '../../../shared/domain/networks.ts';

const kept = (text: string): string => {
  const read = readNetwork(text);
  if ('wrong' in read) throw new Error(read.wrong);
  return read.network;
};
/** As the service does it: an entry is read before an address is compared with it. */
const allows = (network: string, address: string) => isInNetworks({ address, networks: [kept(network)] });

describe('a network of an allowlist', () => {
  it.each([
    ['192.0.2.0/24', '192.0.2.0/24'],
    ['192.0.2.7', '192.0.2.7/32'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:DB8:0::/32', '2001:db8::/32'],
    ['2001:db8::1', '2001:db8::1/128'],
    ['::ffff:192.0.2.0/120', '192.0.2.0/24'],
    ['::ffff:c000:0207', '192.0.2.7/32'],
    ['::ffff:0:0/96', '0.0.0.0/0'],
    ['::/0', '::/0'],
  ])('%s is kept as %s', (text, expected) => {
    expect(kept(text)).toBe(expected);
    expect(kept(expected)).toBe(expected);
  });

  it.each([
    ...['', ' ', 'localhost', '10', '10.1', '10.0.0.0.0', '010.0.0.0/8', '0x0a000000', '167772160', '192.0.2.0/'],
    ...['192.0.2.0/024', '192.0.2.0/+8', '192.0.2.0/255.255.255.0', '192.0.2.0/24/24', ' 192.0.2.0/24', '*'],
    ...['fe80::1%eth0', 'fe80::%eth0/64', '[2001:db8::]/32', '1::2::3', '2001:db8::/32\n'],
  ])('%j is none, and what would be one is said', (text) => {
    expect(readNetwork(text)).toEqual({ wrong: expect.stringContaining('192.0.2.0/24 or 2001:db8::/32') });
  });

  it.each([
    ['192.0.2.0/33', 32],
    ['2001:db8::/129', 128],
  ])('%s is longer than its address', (text, bits) => {
    expect(readNetwork(text)).toEqual({ wrong: `has a length of more than ${bits} bits` });
  });

  it.each([
    ['192.0.2.7/8', '192.0.0.0/8', '192.0.2.7'],
    ['2001:db8::1/32', '2001:db8::/32', '2001:db8::1'],
  ])('%s would let in many where one was meant', (text, network, host) => {
    expect(readNetwork(text)).toEqual({
      wrong: `has bits set beyond its length: ${network} is the network, ${host} the address`,
    });
  });
});

describe('an address in networks', () => {
  it('is in none when there is none, and no text that is no address is in any', () => {
    expect(isInNetworks({ address: '192.0.2.7', networks: [] })).toBe(false);
    for (const address of ['', 'unknown', '10', '192.0.2.7:80', '192.0.2.7%eth0'])
      expect(isInNetworks({ address, networks: ['0.0.0.0/0', '::/0'] })).toBe(false);
  });

  it('is in a list when it is in one of its networks', () => {
    const networks = ['192.0.2.0/24', '2001:db8::/32', '198.51.100.7/32'];
    expect(isInNetworks({ address: '198.51.100.7', networks })).toBe(true);
    expect(isInNetworks({ address: '2001:db8:ffff::', networks })).toBe(true);
    expect(isInNetworks({ address: '198.51.100.8', networks })).toBe(false);
  });

  it('is IPv4 also where it came mapped into IPv6, and IPv4 is in no network of IPv6', () => {
    expect(allows('192.0.2.0/24', '::ffff:192.0.2.7')).toBe(true);
    expect(allows('::ffff:192.0.2.0/120', '192.0.2.7')).toBe(true);
    expect(allows('::/0', '192.0.2.7')).toBe(false);
    expect(allows('::/0', '::ffff:192.0.2.7')).toBe(false);
    expect(allows('0.0.0.0/0', '2001:db8::1')).toBe(false);
  });

  it('agrees with a comparison bit by bit', () => {
    const network = fc
      .constantFrom(32, 128)
      .chain((length) =>
        fc.record({ bits: bitsOf(length), prefix: fc.integer({ min: 0, max: length }), isMapped: fc.boolean() }),
      );
    /** Mostly a near one, which differs from the network in one bit or none. */
    const near = fc.record({ flip: fc.option(fc.nat(127)), tail: bitsOf(128) });
    fc.assert(
      fc.property(
        network,
        near,
        fc.boolean(),
        bitsOf(128),
        ({ bits, prefix, isMapped }, { flip, tail }, far, other) => {
          const base = bits.slice(0, prefix) + '0'.repeat(bits.length - prefix);
          const close = [...(base.slice(0, prefix) + tail.slice(0, bits.length - prefix))]
            .map((bit, index) => (index === flip ? (bit === '0' ? '1' : '0') : bit))
            .join('');
          const address = far ? other.slice(0, bits.length) : close;
          fc.pre(bits.length === 32 || !isMappedBits(base));
          const expected =
            bits.length === 128 && isMappedBits(address) ? false : address.startsWith(base.slice(0, prefix));
          const mapped = isMapped && bits.length === 32;
          const networkText = mapped ? `${writeIpv6(mappedPrefix + base)}/${96 + prefix}` : `${write(base)}/${prefix}`;
          expect(allows(networkText, write(address))).toBe(expected);
          if (bits.length === 32) expect(allows(networkText, writeIpv6(mappedPrefix + address))).toBe(expected);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});

const mappedPrefix = '0'.repeat(80) + '1'.repeat(16);
const isMappedBits = (bits: string) => bits.startsWith(mappedPrefix);
const bitsOf = (length: number) => fc.string({ unit: fc.constantFrom('0', '1'), minLength: length, maxLength: length });
const write = (bits: string) => (bits.length === 32 ? writeIpv4(bits) : writeIpv6(bits));
const groups = (bits: string, size: number) => bits.match(new RegExp(`.{${size}}`, 'g')) ?? [];
const writeIpv4 = (bits: string) =>
  groups(bits, 8)
    .map((group) => Number.parseInt(group, 2))
    .join('.');
const writeIpv6 = (bits: string) =>
  groups(bits, 16)
    .map((group) => Number.parseInt(group, 2).toString(16))
    .join(':');
