import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ChosenOffer, chooseOffer, type OfferTerms } from '../../../api/x402/choose-offer.ts';
import { readOffers } from '../../../api/x402/read-offers.ts';
import { PurserError } from '../../../shared/errors.ts';
import { askingHeaders, chain, goodOffer, merchant, offerOfVersion1, registry, usdc, wallet } from './offers.ts';

type Accepts = readonly Record<string, unknown>[];

const terms = (accepts: Accepts, more: Record<string, unknown> = {}): OfferTerms => ({
  required: readOffers({ headers: askingHeaders(accepts, more), body: Buffer.alloc(0) }),
  targetUrl: 'https://api.example.com/data?q=1',
  chain,
  token: registry.token(chain, 'USDC')!,
  walletAddress: wallet,
  registry,
});
const choose = (accepts: Accepts, more: Partial<OfferTerms> = {}): ChosenOffer =>
  chooseOffer({ ...terms(accepts), ...more });

/** Why the only offer is not accepted. */
function reasonAgainst(offer: Record<string, unknown>, more: Partial<OfferTerms> = {}): string {
  try {
    choose([offer], more);
  } catch (error) {
    if (!(error instanceof PurserError)) throw error;
    expect(error.code).toBe('no_acceptable_offer');
    const [first, ...others] = (error.details as { offers: { index: number; reason: string }[] }).offers;
    expect(others).toEqual([]);
    return first!.reason;
  }
  throw new Error('It was accepted.');
}

describe('the offer that is paid', () => {
  it('says all that has to be signed and echoed', () => {
    const raw = goodOffer({ payTo: merchant.toLowerCase() });
    expect(chooseOffer(terms([raw], { resource: { url: 'https://api.example.com/data' } }))).toEqual({
      amountMinor: 10_000n,
      payTo: merchant,
      domain: { name: 'USD Coin', version: '2' },
      windowSeconds: 60,
      version: 2,
      offer: { resource: { url: 'https://api.example.com/data' }, accepted: raw, extensions: null },
    });
  });

  it('is of version 1 where the target is', () => {
    const raw = offerOfVersion1();
    const body = Buffer.from(JSON.stringify({ x402Version: 1, accepts: [raw] }));
    const chosen = chooseOffer({ ...terms([]), required: readOffers({ headers: {}, body }) });
    expect(chosen).toMatchObject({ version: 1, amountMinor: 10_000n, offer: { resource: null, accepted: raw } });
  });

  it('is the cheapest of those that can be accepted; of equal ones the first', () => {
    const outcome = fc.record({ amount: fc.bigInt({ min: 1n, max: 5n }), isGood: fc.boolean() });
    fc.assert(
      fc.property(fc.array(outcome, { minLength: 1, maxLength: 8 }), (outcomes) => {
        const accepts = outcomes.map(({ amount, isGood }, id) =>
          goodOffer({ amount: `${amount}`, id, ...(!isGood && { scheme: 'upto' }) }),
        );
        const good = outcomes.flatMap(({ amount, isGood }, id) => (isGood ? [{ amount, id }] : []));
        if (good.length === 0) {
          expect(() => choose(accepts)).toThrow(`None of the ${accepts.length} offers`);
          return;
        }
        const least = good.reduce((found, next) => (next.amount < found.amount ? next : found));
        const chosen = choose(accepts);
        expect([chosen.amountMinor, chosen.offer.accepted.id]).toEqual([least.amount, least.id]);
      }),
    );
  });

  it('is not the second one that costs a million times as much, whichever comes first', () => {
    const [cheap, dear] = [goodOffer(), goodOffer({ amount: '10000000000' })];
    for (const accepts of [
      [cheap, dear],
      [dear, cheap],
    ])
      expect(choose(accepts).amountMinor).toBe(10_000n);
  });

  it('is the one for the chain and the token of the session, of several for others', () => {
    const others = [
      goodOffer({ network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp', amount: '1' }),
      goodOffer({ network: 'eip155:84532', asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e', amount: '1' }),
      goodOffer({ asset: '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512', amount: '1' }),
    ];
    expect(choose([...others, goodOffer()]).amountMinor).toBe(10_000n);
  });

  it('may leave out what the token is called, and have any case where it says an address', () => {
    for (const extra of [undefined, null, {}, { name: 'USD Coin' }, { version: '2' }, { decimals: 6 }])
      expect(choose([goodOffer({ extra, asset: usdc.toLowerCase() })]).domain).toEqual({
        name: 'USD Coin',
        version: '2',
      });
    expect(choose([goodOffer({ extra: { assetTransferMethod: 'eip3009' } })]).amountMinor).toBe(10_000n);
  });

  it.each([
    [1, 30],
    [29.9, 30],
    [60, 60],
    [299.9, 299],
    [300, 300],
    [3_600, 300],
    [86_400, 300],
  ])('is good for a time that is bounded: of %d s asked for, %d', (maxTimeoutSeconds, windowSeconds) => {
    expect(choose([goodOffer({ maxTimeoutSeconds })]).windowSeconds).toBe(windowSeconds);
  });

  it('may cost as much as max_amount', () => {
    expect(choose([goodOffer()], { maxAmountMinor: 10_000n }).amountMinor).toBe(10_000n);
    expect(reasonAgainst(goodOffer(), { maxAmountMinor: 9_999n })).toBe(
      'amount 0.01 USDC is more than max_amount 0.009999',
    );
  });
});

describe('an offer is passed over, and the reason is told', () => {
  const other = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
  it.each<[string, Record<string, unknown>, RegExp]>([
    ['another scheme', { scheme: 'upto' }, /^scheme "upto" is not supported/],
    ['no scheme', { scheme: undefined }, /^scheme "" is not supported/],
    ['another chain', { network: 'eip155:84532' }, /^network "eip155:84532" is not eip155:31337/],
    ['another asset with the right name', { asset: other }, /^asset 0x7099\S+ is not the USDC of eip155:31337/],
    ['no asset', { asset: undefined }, /^asset is not an address/],
    ['an asset with a digit mistyped', { asset: usdc.replace('5FbDB', '5FbdB') }, /^asset has a wrong checksum/],
    ['payTo with a wrong checksum', { payTo: merchant.replace('2B5', '2b5') }, /^payTo has a wrong checksum/],
    ['payTo zero', { payTo: `0x${'0'.repeat(40)}` }, /^payTo is the zero address/],
    ['payTo that is none', { payTo: 'merchant.eth' }, /^payTo is not an address/],
    ['payTo our own wallet', { payTo: wallet }, /^payTo is the wallet that is to pay/],
    ['payTo our own wallet in small letters', { payTo: wallet.toLowerCase() }, /^payTo is the wallet that is to pay/],
    ['payTo the token', { payTo: usdc }, /^payTo is the contract of a token/],
    ['payTo another token', { payTo: '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512' }, /^payTo is the contract/],
    ['amount 0', { amount: '0' }, /^amount "0" is not a positive number/],
    ['a negative amount', { amount: '-1' }, /^amount "-1" is not/],
    ['an amount in units of the token', { amount: '0.01' }, /^amount "0.01" is not/],
    ['an amount with an exponent', { amount: '1e4' }, /^amount "1e4" is not/],
    ['an amount in hexadecimal', { amount: '0x10' }, /^amount "0x10" is not/],
    ['an amount with a zero before', { amount: '010' }, /^amount "010" is not/],
    ['an amount with a space', { amount: '10 ' }, /^amount "10 " is not/],
    ['an amount as a number', { amount: 10_000 }, /^amount "" is not/],
    ['an amount that no contract can hold', { amount: `${1n << 256n}` }, /^amount "\d+" is not/],
    ['an amount without end', { amount: '9'.repeat(5_000) }, /^amount "9{79}… is not/],
    ['no time', { maxTimeoutSeconds: 0 }, /^maxTimeoutSeconds 0 leaves no time/],
    ['hardly any time', { maxTimeoutSeconds: 0.5 }, /^maxTimeoutSeconds 0.5 leaves no time/],
    ['a time before', { maxTimeoutSeconds: -60 }, /^maxTimeoutSeconds -60 leaves no time/],
    ['a year', { maxTimeoutSeconds: 31_536_000 }, /^maxTimeoutSeconds 31536000 is more than a day/],
    ['a second more than a day', { maxTimeoutSeconds: 86_401 }, /is more than a day/],
    ['for ever', { maxTimeoutSeconds: 1e308 }, /is more than a day/],
    ['a time in words', { maxTimeoutSeconds: '60' }, /^maxTimeoutSeconds is not a number/],
    ['another EIP-712 name', { extra: { name: 'USDC', version: '2' } }, /^extra.name "USDC" is not .* "USD Coin"/],
    ['another EIP-712 version', { extra: { name: 'USD Coin', version: '1' } }, /^extra.version "1" is not .* "2"/],
    ['a version as a number', { extra: { version: 2 } }, /^extra.version 2 is not/],
    ['a name that is none', { extra: { name: { toString: 'USD Coin' } } }, /^extra.name \{.*\} is not/],
    ['wrong decimals', { extra: { decimals: 18 } }, /^extra.decimals 18 is not what the token has, 6/],
    ['another way to transfer', { extra: { assetTransferMethod: 'permit2' } }, /^extra.assetTransferMethod "permit2"/],
    ['one too large to echo', { note: 'a'.repeat(8_200) }, /^it is too large to be echoed/],
  ])('%s', (_name, more, reason) => expect(reasonAgainst(goodOffer(more))).toMatch(reason));

  it('a token that cannot be paid by a signed authorisation', () => {
    const token = registry.token(chain, 'PLAIN')!;
    expect(reasonAgainst(goodOffer({ asset: token.asset }), { token })).toMatch(
      /^PLAIN of eip155:31337 cannot be paid/,
    );
  });

  const forResource = (url: unknown) => () => chooseOffer(terms([goodOffer()], { resource: { url } }));
  it.each([
    'https://evil.example/data',
    'https://api.example.com:8443/data',
    'ftp://api.example.com/data',
    'http://api.example.com:443/data',
    'https://sub.api.example.com/data',
    '//evil.example/data',
    'https://api.example.com@evil.example/',
    7,
  ])('a resource of another origin: %s', (url) => expect(forResource(url)).toThrow('None of the 1 offers'));

  it.each([
    'https://api.example.com/other',
    '/data',
    'data',
    'HTTPS://API.example.com:443/',
    'http://api.example.com/data',
    null,
    undefined,
  ])('but not one of the same, nor by http behind a TLS proxy: %s', (url) => expect(forResource(url)).not.toThrow());

  it('a resource of another origin in version 1', () => {
    const raw = offerOfVersion1({ resource: 'https://evil.example/data' });
    const body = Buffer.from(JSON.stringify({ x402Version: 1, accepts: [raw] }));
    expect(() => chooseOffer({ ...terms([]), required: readOffers({ headers: {}, body }) })).toThrow('None of the 1');
  });

  it('for each of them, by its place', () => {
    try {
      choose([goodOffer({ scheme: 'upto' }), goodOffer({ amount: '0' })]);
      expect.unreachable();
    } catch (error) {
      expect((error as PurserError).details).toEqual({
        offers: [
          { index: 0, reason: 'scheme "upto" is not supported; exact is' },
          { index: 1, reason: expect.stringMatching(/^amount/) },
        ],
      });
    }
  });

  it('where there is none, that is told', () => {
    expect(() => choose([])).toThrow('The target asks for a payment, but offers no way to pay.');
  });

  it('in short, on one line, whatever the target wrote', () => {
    const hostile = fc.string({ unit: 'binary', maxLength: 500 });
    fc.assert(
      fc.property(hostile, fc.constantFrom('scheme', 'network', 'asset', 'payTo', 'amount'), (text, member) => {
        const [good] = ['exact', chain, usdc, merchant].filter((each) => each === text);
        fc.pre(good === undefined && !/^[1-9]\d*$/.test(text));
        const reason = reasonAgainst(goodOffer({ [member]: text }));
        expect(reason.length).toBeLessThan(200);
        expect(reason).not.toMatch(/\p{Cc}/u);
      }),
    );
  });
});
