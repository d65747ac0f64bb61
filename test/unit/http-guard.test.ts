import { once } from 'node:events';
import { connect } from 'node:net';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { describe, expect, it } from 'vitest';
import { isPublicAddress, pinTo } from '../../shared/http-guard.ts';
import { failureOf, OutgoingFailure } from '../../shared/outgoing-failure.ts';
import { startRawTarget } from '../support/target.ts';

const within = (first: string, last: string) => {
  const toNumber = (text: string) => ipaddr.IPv4.parse(text).octets.reduce((sum, each) => sum * 256 + each, 0);
  return fc
    .integer({ min: toNumber(first), max: toNumber(last) })
    .map((number) => [24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join('.'));
};

describe('a public address', () => {
  it.each([
    ['0.0.0.0', '0.255.255.255', 'this network'],
    ['10.0.0.0', '10.255.255.255', 'private'],
    ['100.64.0.0', '100.127.255.255', 'shared by a provider'],
    ['127.0.0.0', '127.255.255.255', 'loopback'],
    ['169.254.0.0', '169.254.255.255', 'link-local, metadata of clouds'],
    ['172.16.0.0', '172.31.255.255', 'private'],
    ['192.0.0.0', '192.0.0.255', 'protocol assignments'],
    ['192.0.2.0', '192.0.2.255', 'documentation'],
    ['192.168.0.0', '192.168.255.255', 'private'],
    ['198.18.0.0', '198.19.255.255', 'benchmarking'],
    ['198.51.100.0', '198.51.100.255', 'documentation'],
    ['203.0.113.0', '203.0.113.255', 'documentation'],
    ['224.0.0.0', '239.255.255.255', 'multicast'],
    ['240.0.0.0', '255.255.255.255', 'reserved, broadcast'],
  ])('is none from %s to %s: %s; nor where IPv6 holds one of them', (first, last) => {
    fc.assert(
      fc.property(within(first, last), (address) => {
        expect(isPublicAddress(address)).toBe(false);
        for (const prefix of ['::', '::ffff:', '::ffff:0:', '64:ff9b::', '64:ff9b:1::'])
          expect(isPublicAddress(prefix + address)).toBe(false);
        const [a, b, c, d] = ipaddr.IPv4.parse(address).octets.map((each) => each.toString(16).padStart(2, '0'));
        expect(isPublicAddress(`2002:${a}${b}:${c}${d}::1`)).toBe(false);
      }),
    );
  });

  it('is none outside of 2000::/3', () => {
    const group = fc.nat(0xffff);
    const groups = fc.tuple(group, group, group, group, group, group, group, group);
    fc.assert(
      fc.property(groups, (parts) => {
        fc.pre((parts[0] & 0xe000) !== 0x2000);
        expect(isPublicAddress(parts.map((each) => each.toString(16)).join(':'))).toBe(false);
      }),
    );
  });

  it.each([
    '::',
    '::1',
    'fe80::1',
    'fc00::1',
    'fd12:3456::1',
    'ff02::1',
    'fec0::1',
    '2001:db8::1',
    '2001::1',
    '100::1',
  ])('is not %s', (address) => expect(isPublicAddress(address)).toBe(false));

  it.each(['1.1.1.1', '8.8.8.8', '93.184.216.34', '223.255.255.255', '2606:4700:4700::1111', '2a00:1450:4001::200e'])(
    'is %s',
    (address) => expect(isPublicAddress(address)).toBe(true),
  );

  it.each(['', 'localhost', 'example.com', '1.1.1', '1.1.1.1%1', '1.1.1.256', 'fe80::1%eth0', '1.1.1.1 '])(
    'is not "%s", which is no address',
    (text) => expect(isPublicAddress(text)).toBe(false),
  );
});

describe('addresses that were checked', () => {
  it('are those that are connected to, whatever the name leads to', async () => {
    const target = await startRawTarget((socket) => socket.end('here'));
    const socket = connect({
      host: 'nowhere.invalid',
      port: Number(new URL(target.url).port),
      lookup: pinTo(['127.0.0.1']),
    });
    const [data] = (await once(socket, 'data')) as [Buffer];
    expect(data.toString()).toBe('here');
    socket.destroy();
    await target.stop();
  });
});

describe('what goes wrong on the way', () => {
  it.each([
    ['ECONNREFUSED', 'connection_refused'],
    ['ECONNRESET', 'connection_reset'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls_error'],
    ['CERT_HAS_EXPIRED', 'tls_error'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'tls_error'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls_error'],
    ['UND_ERR_HEADERS_OVERFLOW', 'response_too_large'],
    ['UND_ERR_RES_EXCEEDED_MAX_SIZE', 'response_too_large'],
    ['UND_ERR_CONNECT_TIMEOUT', 'timeout'],
  ])('%s is told as %s', (code, reason) => {
    const failure = failureOf(Object.assign(new Error('inside'), { code }), { timeoutMs: 10_000 });
    expect(failure).toMatchObject({ reason });
    expect(failure.message).not.toContain('inside');
  });

  it('is not told where it is a fault of ours', () => {
    const fault = new TypeError('x is not a function');
    expect(() => failureOf(fault, { timeoutMs: 1 })).toThrow(fault);
  });

  it('is told once', () => {
    const failure = new OutgoingFailure('dns_error', 'its name does not resolve');
    expect(failureOf(failure, { timeoutMs: 1 })).toBe(failure);
  });
});
