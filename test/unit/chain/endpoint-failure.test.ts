import { HttpRequestError, RpcRequestError, TimeoutError } from 'viem';
import { describe, expect, it } from 'vitest';
import { failureOf, isDecisive } from '../../../shared/chain/evm/endpoint-failure.ts';

const url = 'https://rpc.example/v3/secret';
const body = { method: 'eth_blockNumber' };
const http = (status: number, details = '', headers = {}) =>
  new HttpRequestError({ url, body, status, details, headers: new Headers(headers) });
const rpc = (
  code: number,
  message: string,
  o: { data?: unknown; status?: number; headers?: Record<string, string> } = {},
) =>
  new RpcRequestError({
    url,
    body,
    error: { code, message, data: o.data },
    status: o.status,
    headers: o.headers && new Headers(o.headers),
  });
const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1_000).toUTCString();

describe('what a failure says about the endpoint', () => {
  it.each([
    ['a timeout', new TimeoutError({ url, body })],
    ['no connection', new HttpRequestError({ url, body, cause: new Error('fetch failed') })],
    ['HTTP 503', http(503, 'Service Unavailable')],
    ['HTTP 401', http(401, 'no access')],
    ['a JSON-RPC error in HTTP 503', rpc(-32_011, 'no backend is currently healthy to serve traffic', { status: 503 })],
    ['what is no JSON at all', new SyntaxError('Unexpected token')],
  ])('%s: it is down', (_, error) => {
    expect(failureOf(error)).toEqual({ kind: 'down' });
    expect(isDecisive(error)).toBe(false);
  });

  it.each<[string, Error, number | undefined]>([
    ['HTTP 429', http(429), undefined],
    ['Retry-After in seconds', http(429, '', { 'retry-after': '7' }), 7_000],
    ['Retry-After in JSON-RPC', rpc(-32_000, 'words', { status: 429, headers: { 'retry-after': '7' } }), 7_000],
    ['Retry-After that is over', http(429, '', { 'retry-after': inSeconds(-9) }), undefined],
    ['Retry-After without sense', http(429, '', { 'retry-after': 'soon' }), undefined],
    ['Retry-After without end', http(429, '', { 'retry-after': '999999' }), 300_000],
    ['Infura', rpc(-32_005, 'request rate limited', { data: { rate: { backoff_seconds: 30 } } }), 30_000],
    ['Ankr', rpc(-32_090, 'Too many requests, reason: call rate limit exhausted, retry in 10s'), 10_000],
    ['Ankr, longer', rpc(-32_090, 'Too many requests, reason: call rate limit exhausted, retry in 2m5s'), 125_000],
  ])('%s: it limits us', (_, error, forMs) => {
    expect(failureOf(error)).toEqual({ kind: 'limited', forMs });
  });

  it('reads a date in Retry-After', () => {
    const failure = failureOf(http(429, '', { 'retry-after': inSeconds(60) }));
    expect(failure).toMatchObject({ kind: 'limited' });
    expect(failure.kind === 'limited' && failure.forMs).toBeGreaterThan(50_000);
  });

  it.each([
    ['an answer', rpc(-32_603, 'nonce too low'), true],
    ['an answer in an HTTP error', http(500, '{"code":-32000,"message":"already known"}'), true],
    ['an answer in JSON-RPC in an HTTP error', rpc(-32_000, 'nonce too low', { status: 500 }), true],
    ['a block that it does not have', rpc(-32_000, 'header not found'), false],
    ['a method that it does not have', rpc(-32_601, 'the method eth_foo does not exist'), false],
  ])('%s: it works (F5)', (_, error, decides) => {
    expect(failureOf(error)).toEqual({ kind: 'answer' });
    expect(isDecisive(error)).toBe(decides);
  });
});
