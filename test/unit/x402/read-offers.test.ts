import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readOffers } from '../../../api/x402/read-offers.ts';
import { OutgoingFailure } from '../../../shared/outgoing-failure.ts';
import { askingHeaders, goodOffer, offerOfVersion1 } from './offers.ts';

const none = Buffer.alloc(0);
const readHeader = (document: unknown) =>
  readOffers({ headers: { 'payment-required': Buffer.from(JSON.stringify(document)).toString('base64') }, body: none });
const readBody = (document: unknown) => readOffers({ headers: {}, body: Buffer.from(JSON.stringify(document)) });

describe('what a target asks for', () => {
  it('is read from the header of version 2, and kept as it was written', () => {
    const raw = goodOffer({
      extra: { name: 'USD Coin', version: '2', more: { of: ['anything', 1.5] } },
      unknown: null,
    });
    const resource = { url: 'https://api.example.com/data', odd: true };
    const required = readOffers({
      headers: askingHeaders([raw], { resource, extensions: { bazaar: { info: {} } } }),
      body: Buffer.from('{"x402Version":1}'),
    });
    expect(required).toMatchObject({ version: 2, resource, extensions: { bazaar: { info: {} } } });
    expect(required.offers[0]).toEqual({
      raw,
      scheme: 'exact',
      network: raw.network,
      amount: '10000',
      asset: raw.asset,
      payTo: raw.payTo,
      maxTimeoutSeconds: 60,
      extra: raw.extra,
    });
    expect(JSON.stringify(required.offers[0]?.raw)).toBe(JSON.stringify(raw));
  });

  it('is read from the body of version 1, whose chains have names', () => {
    const raw = offerOfVersion1({ network: 'base-sepolia' });
    const required = readBody({ x402Version: 1, error: 'X-PAYMENT header is required', accepts: [raw] });
    expect(required).toMatchObject({ version: 1, resource: null, extensions: null });
    expect(required.offers[0]).toMatchObject({ raw, network: 'eip155:84532', amount: '10000' });
  });

  it.each([
    ['base', 'eip155:8453'],
    ['base-sepolia', 'eip155:84532'],
    ['polygon', 'eip155:137'],
    ['eip155:31337', 'eip155:31337'],
    ['solana', 'solana'],
    ['constructor', 'constructor'],
  ])('names network %s as %s', (network, expected) => {
    const required = readBody({ x402Version: 1, accepts: [offerOfVersion1({ network })] });
    expect(required.offers[0]?.network).toBe(expected);
  });

  it('is read offer by offer: one that is broken stands beside good ones', () => {
    const broken = [
      null,
      'x',
      7,
      [],
      {},
      goodOffer({ amount: 10_000, payTo: null, maxTimeoutSeconds: '60', extra: [] }),
    ];
    const { offers } = readHeader({ x402Version: 2, accepts: [...broken, goodOffer()] });
    expect(offers).toHaveLength(broken.length + 1);
    expect(offers[5]).toMatchObject({ amount: '', payTo: '', maxTimeoutSeconds: Number.NaN, extra: {} });
    expect(offers[6]).toMatchObject({ amount: '10000' });
  });

  const tooMany = Array.from({ length: 101 }, () => goodOffer());
  const deep = (levels: number): unknown => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`);
  it.each<[string, () => unknown, RegExp]>([
    ['no header and no JSON', () => readOffers({ headers: {}, body: Buffer.from('<html>') }), /no header.*not a JSON/],
    ['no header and no body', () => readOffers({ headers: {}, body: none }), /no header/],
    ['a body of version 2', () => readBody({ x402Version: 2, accepts: [] }), /x402Version is not 1/],
    ['a header of version 1', () => readHeader({ x402Version: 1, accepts: [] }), /x402Version is not 2/],
    ['a header of version 3', () => readHeader({ x402Version: 3, accepts: [] }), /x402Version is not 2/],
    ['no version', () => readHeader({ accepts: [] }), /x402Version is not 2/],
    ['no offers', () => readHeader({ x402Version: 2 }), /accepts is not a list/],
    ['too many offers', () => readHeader({ x402Version: 2, accepts: tooMany }), /101 offers; 100/],
    ['a list', () => readHeader([]), /not JSON in base64/],
    ['null', () => readHeader(null), /not JSON in base64/],
    ['no base64', () => readOffers({ headers: { 'payment-required': '{"x402Version":2}' }, body: none }), /base64/],
    ['broken JSON', () => readOffers({ headers: { 'payment-required': 'e30x' }, body: none }), /base64/],
    [
      'two headers',
      () => readOffers({ headers: { 'payment-required': ['e30=', 'e30='] }, body: none }),
      /more than once/,
    ],
    [
      'wrong UTF-8',
      () => readOffers({ headers: {}, body: Buffer.from('{"x402Version":1,"accepts":[],"a":"\xff"}', 'latin1') }),
      /not a JSON/,
    ],
    [
      'deep nesting',
      () => readBody({ x402Version: 1, accepts: [offerOfVersion1({ extra: deep(1_000) })] }),
      /not a JSON/,
    ],
  ])('cannot be read from %s', (_name, read, message) => {
    expect(read).toThrow(OutgoingFailure);
    expect(read).toThrow(message);
  });

  it('survives nesting without end, as far as the size of an answer allows', () => {
    const body = Buffer.from(`{"x402Version":1,"accepts":[${'['.repeat(250_000)}${']'.repeat(250_000)}]}`);
    expect(() => readOffers({ headers: {}, body })).toThrow(OutgoingFailure);
  });

  it('is read or refused in words, whatever stands there', () => {
    const value = fc.jsonValue({ maxDepth: 3 });
    const member = fc.constantFrom('scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds', 'extra');
    const offer = fc.oneof(value, fc.dictionary(member, value).map(goodOffer));
    const accepts = fc.oneof(value, fc.array(offer, { maxLength: 4 }));
    fc.assert(
      fc.property(accepts, value, fc.boolean(), (accepts, resource, isHeader) => {
        const document = { x402Version: isHeader ? 2 : 1, accepts, resource, extensions: resource };
        try {
          (isHeader ? readHeader : readBody)(document);
        } catch (error) {
          expect(error).toBeInstanceOf(OutgoingFailure);
        }
      }),
    );
  });
});
