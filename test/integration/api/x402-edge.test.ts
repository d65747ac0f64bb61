import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createHttpGuard } from '../../../shared/http-guard.ts';
import { certificate } from '../../support/certificate.ts';
import { startTarget, type TestTarget } from '../../support/target.ts';
import { recipient, startTestApi, type TestAccount, type TestApi, usdcContract } from './harness.ts';
import { offer, paymentRequired } from './x402-calls.ts';

describe('what x402 costs', () => {
  let api: TestApi;
  let account: TestAccount;
  let target: TestTarget;
  const seen: { method: string | undefined; tone: unknown; accept: unknown; encoding: unknown; body: string }[] = [];

  beforeAll(async () => {
    target = await startTarget(
      async (request, response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk as Buffer);
        const { accept, 'x-tone': tone, 'accept-encoding': encoding } = request.headers;
        seen.push({ method: request.method, tone, accept, encoding, body: Buffer.concat(chunks).toString() });
        if (request.url === '/free') response.end('here you are');
        else if (request.url === '/moved') response.writeHead(301, { location: '/' }).end();
        else response.writeHead(402, paymentRequired(offers)).end();
      },
      { tls: true },
    );
    api = await startTestApi({
      temporalAddress: '127.0.0.1:1',
      guard: createHttpGuard({ allowLoopback: true, timeoutMs: 30_000, extraCa: certificate.cert }),
      feeTiers: [
        { fromAmount: '0', rate: '1' },
        { fromAmount: '100', rate: '0.5' },
      ],
    });
    account = await api.account();
  });
  afterAll(async () => {
    await api?.stop();
    await target?.stop();
  });

  const offers = [
    offer(),
    offer({ network: 'eip155:84532', asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e', extra: null, amount: '5' }),
    offer({
      network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
      asset: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
    }),
    offer({ asset: recipient }),
    offer({ amount: '0.01' }),
    'nonsense',
    offer({ network: 'n'.repeat(5_000), payTo: 'p'.repeat(2_000) }),
  ];
  const check = (body: Record<string, unknown>) => account.call('POST', '/api/v1/x402/check', body);

  it('here is told by tiers', async () => {
    expect(await account.call('GET', '/api/v1/x402/fees/tiers')).toMatchObject({
      status: 200,
      body: {
        data: [
          { from_amount: '0', fee_rate: '1' },
          { from_amount: '100', fee_rate: '0.5' },
        ],
      },
    });
  });

  it('at a target is told offer by offer, with what stands against each', async () => {
    const { status, body } = await check({ url: target.url });
    expect([status, body]).toEqual([
      200,
      {
        url: `${target.url}/`,
        payment_required: true,
        status: 402,
        x402_version: 2,
        offers: [
          {
            scheme: 'exact',
            network: 'eip155:31337',
            asset: usdcContract,
            token: 'USDC',
            amount: '0.01',
            pay_to: recipient,
            acceptable: true,
            reason: null,
          },
          expect.objectContaining({ network: 'eip155:84532', token: 'USDC', amount: '0.000005', acceptable: true }),
          expect.objectContaining({
            token: null,
            amount: null,
            acceptable: false,
            reason: expect.stringMatching(/not served/),
          }),
          expect.objectContaining({
            token: null,
            acceptable: false,
            reason: expect.stringMatching(/^asset .* not known/),
          }),
          expect.objectContaining({
            token: 'USDC',
            amount: null,
            reason: expect.stringMatching(/^amount "0.01" is not/),
          }),
          expect.objectContaining({ scheme: '', acceptable: false }),
          expect.objectContaining({ network: 'n'.repeat(128), pay_to: 'p'.repeat(128), acceptable: false }),
        ],
      },
    ]);
  });

  it('is asked for as the request will be, with nothing that pays', async () => {
    await check({
      url: `${target.url}/x`,
      method: 'POST',
      headers: { 'X-Tone': 'low', Accept: 'text/plain' },
      body: '{"a":1}',
    });
    expect(seen.at(-1)).toEqual({
      method: 'POST',
      tone: 'low',
      accept: 'text/plain',
      encoding: 'identity',
      body: '{"a":1}',
    });
  });

  it.each([
    ['free', 200],
    ['moved', 301],
  ])('is nothing where the target does not ask: /%s', async (path, status) => {
    expect(await check({ url: `${target.url}/${path}` })).toMatchObject({
      status: 200,
      body: { payment_required: false, status, x402_version: null, offers: [] },
    });
  });

  it('is not known of a target that cannot be asked', async () => {
    expect(await check({ url: target.url.replace('127.0.0.1', 'localhost') })).toMatchObject({
      status: 400,
      body: { code: 'target_unreachable', details: { reason: 'tls_error' } },
    });
    expect(await check({ url: 'https://169.254.169.254/' })).toMatchObject({
      status: 400,
      body: { code: 'target_unreachable', details: { reason: 'blocked_address' } },
    });
  });

  it.each<[Record<string, unknown>, string]>([
    [{}, 'url'],
    [{ url: 7 }, 'url'],
    [{ url: 'http://api.example.com/' }, 'url'],
    [{ url: 'https://u:p@api.example.com/' }, 'url'],
    [{ url: 'https://api.example.com/#a' }, 'url'],
    [{ url: `https://api.example.com/${'a'.repeat(2_048)}` }, 'url'],
    [{ url: 'https://api.example.com/', method: 'TRACE' }, 'method'],
    [{ url: 'https://api.example.com/', body: 'a' }, 'body'],
    [{ url: 'https://api.example.com/', method: 'HEAD', body: 'a' }, 'body'],
    [{ url: 'https://api.example.com/', headers: { 'payment-signature': 'a' } }, 'headers.payment-signature'],
    [{ url: 'https://api.example.com/', headers: { 'x-a': 'a\r\nX-Payment: b' } }, 'headers.x-a'],
    [{ url: 'https://api.example.com/', more: 1 }, 'more'],
  ])('is not asked for with %j', async (body, param) => {
    expect(await check(body)).toMatchObject({ status: 400, body: { code: 'invalid_request', param } });
  });
});
