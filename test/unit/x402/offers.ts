import { encodePaymentRequiredHeader } from '@x402/core/http';
import { createRegistry } from '../../../shared/chain/registry.ts';

export const chain = 'eip155:31337';
export const usdc = '0x5FbDB2315678afecb367f032d93F642f64180aa3';
export const merchant = '0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF';
export const wallet = '0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf';
export const registry = createRegistry({
  environment: 'sandbox',
  enabled: [chain, 'eip155:84532'],
  extraTokens: [
    { chain, symbol: 'USDC', decimals: 6, asset: usdc, domain: { name: 'USD Coin', version: '2' } },
    { chain, symbol: 'PLAIN', decimals: 6, asset: '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512' },
  ],
});

/** An offer of version 2 that can be accepted. */
export const goodOffer = (more: Record<string, unknown> = {}): Record<string, unknown> => ({
  scheme: 'exact',
  network: chain,
  amount: '10000',
  asset: usdc,
  payTo: merchant,
  maxTimeoutSeconds: 60,
  extra: { name: 'USD Coin', version: '2' },
  ...more,
});

/** Headers with which a target asks by version 2. */
export function askingHeaders(accepts: unknown, more: Record<string, unknown> = {}): { 'payment-required': string } {
  const document = { x402Version: 2, error: 'Payment required', accepts, ...more };
  return { 'payment-required': encodePaymentRequiredHeader(document as never) };
}

/** The same offer as version 1 writes it. */
export const offerOfVersion1 = (more: Record<string, unknown> = {}): Record<string, unknown> => ({
  scheme: 'exact',
  network: chain,
  maxAmountRequired: '10000',
  resource: 'https://api.example.com/data',
  description: 'Data',
  mimeType: 'application/json',
  asset: usdc,
  payTo: merchant,
  maxTimeoutSeconds: 60,
  extra: { name: 'USD Coin', version: '2' },
  ...more,
});
