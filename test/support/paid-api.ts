import { decodePaymentSignatureHeader, encodePaymentRequiredHeader } from '@x402/core/http';
import { type Address, type Hex, parseAbi, parseSignature } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { startTarget, type TestTarget } from './target.ts';

export const payee: Address = '0x00000000000000000000000000000000000000bb';

/** What a target asks for; the rest of the offer is the same for all. */
export interface Price {
  /** Minor units. */
  readonly amount?: string;
  readonly maxTimeoutSeconds?: number;
}

/**
 * A web API that wants to be paid, and never looks at payments: the test has them settled itself, or not.
 * The price is in the query: `?amount=10000&maxTimeoutSeconds=30`.
 */
export function startPaidApi({ chain, asset }: { chain: string; asset: Address }): Promise<TestTarget> {
  return startTarget((request, response) => {
    const url = new URL(request.url!, `http://${request.headers.host}`);
    const offer = {
      scheme: 'exact',
      network: chain as `${string}:${string}`,
      amount: url.searchParams.get('amount') ?? '10000',
      asset,
      payTo: payee,
      maxTimeoutSeconds: Number(url.searchParams.get('maxTimeoutSeconds') ?? '300'),
      extra: { name: 'USD Coin', version: '2' },
    };
    const resource = { url: url.href, description: 'Weather', mimeType: 'application/json' };
    const required = encodePaymentRequiredHeader({ x402Version: 2, resource, accepts: [offer] });
    response.writeHead(402, { 'PAYMENT-REQUIRED': required, 'Content-Type': 'application/json' }).end('{}');
  });
}

/** The authorisation in a header of version 2, with its signature. */
export function readHeader(header: string): {
  signature: Hex;
  authorization: { from: Address; to: Address; value: string; validAfter: string; validBefore: string; nonce: Hex };
} {
  return decodePaymentSignatureHeader(header).payload as ReturnType<typeof readHeader>;
}

export const transferWithAuthorization = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
]);

/** Arguments with which anybody has the token carry out what a header allows. */
export function argsOf(header: string) {
  const { signature, authorization: a } = readHeader(header);
  const { r, s, yParity } = parseSignature(signature);
  const numbers = [BigInt(a.value), BigInt(a.validAfter), BigInt(a.validBefore)] as const;
  return [a.from, a.to, ...numbers, a.nonce, 27 + yParity, r, s] as const;
}

/** One of the local chain's own accounts, which has coins for fees. */
export const facilitator = privateKeyToAccount('0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a');
