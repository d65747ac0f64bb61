import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { encodePaymentRequiredHeader } from '@x402/core/http';
import type { DevFacts } from '../dev/home.ts';
import { LOOPBACK } from '../dev/ports.ts';
import { recipient } from './payments.ts';

/** Minor units that each request costs: a hundredth of a cent. */
const amount = '100';

/** A web API that always wants to be paid, and never looks at payments. */
export interface PaidTarget {
  readonly url: string;
  /** From the newest connection to its answer's last byte, in milliseconds. */
  lastMs(): number;
  close(): Promise<void>;
}

/** Serves it in this process, whose clock then tells how much of a payment was the probe. */
export async function createPaidTarget({ facts }: { facts: DevFacts }): Promise<PaidTarget> {
  let [connectedAt, lastMs] = [0, 0];
  const server = createServer((request, response) => {
    const header = encodePaymentRequiredHeader({
      x402Version: 2,
      resource: { url: `http://${request.headers.host}${request.url}`, description: '', mimeType: 'application/json' },
      accepts: [
        {
          ...{ scheme: 'exact', network: facts.chain as `${string}:${string}`, amount, asset: facts.usdc_address },
          ...{ payTo: recipient, maxTimeoutSeconds: 60, extra: { name: 'USD Coin', version: '2' } },
        },
      ],
    });
    response.on('finish', () => {
      lastMs = performance.now() - connectedAt;
    });
    response.writeHead(402, { 'PAYMENT-REQUIRED': header, 'Content-Type': 'application/json' }).end('{}');
  });
  server.on('connection', () => {
    connectedAt = performance.now();
  });
  server.listen(0, LOOPBACK);
  await once(server, 'listening');
  return {
    url: `http://${LOOPBACK}:${(server.address() as AddressInfo).port}/weather`,
    lastMs: () => lastMs,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
