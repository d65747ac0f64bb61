import { ExactEvmScheme } from '@x402/evm/exact/client';
import fc from 'fast-check';
import { getAddress, type Hex, hashTypedData } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { describe, expect, it } from 'vitest';
import { buildAuthorization, isSignedByPayer } from '../../../shared/chain/evm/transfer-authorization.ts';
import { digestOf, payloadSchema } from '../../../signer/digest/payload.ts';

const address = fc
  .uint8Array({ minLength: 20, maxLength: 20 })
  .map((bytes) => getAddress(`0x${Buffer.from(bytes).toString('hex')}`));
const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 });
const terms = fc.record({
  asset: address,
  to: address,
  amountMinor: fc.bigInt({ min: 1n, max: 2n ** 256n - 1n }).map(String),
  chainId: fc.integer({ min: 1, max: 2 ** 40 }),
  domain: fc.record({ name: text, version: text }),
  maxTimeoutSeconds: fc.integer({ min: 1, max: 300 }),
});
type Terms = typeof terms extends fc.Arbitrary<infer T> ? T : never;
const account = privateKeyToAccount(`0x${'5'.repeat(64)}`);

/** What the official client has its wallet sign for an offer, and the signature. */
async function official({ asset, to, amountMinor, chainId, domain, maxTimeoutSeconds }: Terms) {
  let digest: Hex | undefined;
  const scheme = new ExactEvmScheme({
    address: account.address,
    async signTypedData(data) {
      digest = hashTypedData(data as Parameters<typeof hashTypedData>[0]);
      return account.sign({ hash: digest });
    },
  });
  const network = `eip155:${chainId}` as const;
  const offer = { scheme: 'exact', network, asset, amount: amountMinor, payTo: to, maxTimeoutSeconds, extra: domain };
  const { payload } = await scheme.createPaymentPayload(2, offer);
  const { authorization, signature } = payload as unknown as {
    authorization: { nonce: Hex; validAfter: string; validBefore: string };
    signature: Hex;
  };
  return { digest, authorization, signature };
}

const ours = (
  { asset, to, amountMinor, chainId, domain }: Terms,
  stamp: Parameters<typeof buildAuthorization>[0]['stamp'],
) => buildAuthorization({ chain: `eip155:${chainId}`, asset, domain, from: account.address, to, amountMinor, stamp });

describe('an authorisation', () => {
  it('has the digest that the official client signs, whatever is paid to whom, where, and in which token', async () => {
    await fc.assert(
      fc.asyncProperty(terms, async (each) => {
        const { digest, authorization: signed, signature } = await official(each);
        const { nonce, validAfter, validBefore } = signed;
        const authorization = ours(each, { nonce, validAfter: +validAfter, validBefore: +validBefore });
        const payload = payloadSchema.parse({ kind: 'transfer-authorization', authorization });
        expect(digestOf(payload, authorization.from)).toBe(digest);
        expect(await isSignedByPayer(authorization, signature)).toBe(true);
      }),
    );
  });

  it('is recognised as signed by the payer only if nothing about it is changed', async () => {
    await fc.assert(
      fc.asyncProperty(
        terms,
        fc.constantFrom('value', 'nonce', 'to', 'validBefore', 'domain', 'from'),
        async (each, member) => {
          const { authorization: signed, signature } = await official(each);
          const authorization = ours(each, {
            nonce: signed.nonce,
            validAfter: +signed.validAfter,
            validBefore: +signed.validBefore,
          });
          const changed = {
            value: { value: `${BigInt(authorization.value) - 1n}` },
            nonce: { nonce: `0x${'00'.repeat(32)}` as const },
            to: { to: account.address },
            validBefore: { validBefore: authorization.validBefore + 1 },
            domain: { domain: { ...authorization.domain, chainId: authorization.domain.chainId + 1 } },
            from: { from: authorization.to },
          }[member];
          expect(await isSignedByPayer({ ...authorization, ...changed }, signature)).toBe(false);
          expect(await isSignedByPayer(authorization, `0x${'00'.repeat(65)}`)).toBe(false);
          expect(await isSignedByPayer(authorization, '0x')).toBe(false);
        },
      ),
      { numRuns: 40 },
    );
  });

  it.each([
    ['another member', { extra: 1 }],
    ['a value with leading zeros', { value: '01' }],
    ['a value above 2^256 - 1', { value: String(2n ** 256n) }],
    ['a nonce in capitals', { nonce: `0x${'A1'.repeat(32)}` }],
    ['a nonce of 31 bytes', { nonce: `0x${'a1'.repeat(31)}` }],
    ['a time with a fraction', { validBefore: 1.5 }],
    ['an address with a wrong checksum', { to: '0x70997970c51812dc3A010C7d01b50e0d17dc79C8' }],
    [
      'a domain with a salt',
      { domain: { name: 'a', version: '1', chainId: 1, verifyingContract: account.address, salt: '0x' } },
    ],
    ['a domain without a version', { domain: { name: 'a', chainId: 1, verifyingContract: account.address } }],
  ])('is not read with %s', (_, change) => {
    const authorization = {
      domain: { name: 'a', version: '1', chainId: 1, verifyingContract: account.address },
      ...{ from: account.address, to: account.address, value: '1', validAfter: 0, validBefore: 1 },
      nonce: `0x${'a1'.repeat(32)}`,
    };
    const payload = (more: object) => ({
      kind: 'transfer-authorization',
      authorization: { ...authorization, ...more },
    });
    expect(payloadSchema.safeParse(payload({})).success).toBe(true);
    expect(payloadSchema.safeParse(payload(change)).success).toBe(false);
  });
});
