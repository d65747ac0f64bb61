import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isAddress, parseEther, parseUnits } from 'viem';
import { LOOPBACK } from './ports.ts';
import type { LocalToken } from './token.ts';

/** What a new wallet is raised to on the local chain. */
const FUNDS = { wei: parseEther('10'), minorUnits: parseUnits('10000', 6) };
const BODY_LIMIT_BYTES = 1_024;

/** The faucet of the local chain. */
export interface Faucet {
  url: string;
  stop(): Promise<void>;
}

/**
 * Serves `POST /fund {"address": "0x…"}` on a free port: raises the wallet to 10 ETH and 10,000 USDC, and answers 200
 * when both are mined. A repeat gives nothing twice.
 */
export async function startFaucet(token: LocalToken): Promise<Faucet> {
  const server = createServer(async (request, response) => {
    const answer = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    try {
      if (request.method !== 'POST' || request.url !== '/fund') return answer(404, { message: 'Use POST /fund.' });
      const address = await readAddress(request);
      if (address === undefined) return answer(400, { message: 'The body must be {"address": "0x…"}.' });
      await token.topUp({ address, ...FUNDS });
      answer(200, { address });
    } catch (error) {
      answer(503, { message: (error as Error).message });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${LOOPBACK}:${port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function readAddress(request: IncomingMessage): Promise<`0x${string}` | undefined> {
  let text = '';
  for await (const chunk of request) {
    text += String(chunk);
    if (text.length > BODY_LIMIT_BYTES) return undefined;
  }
  try {
    const { address } = JSON.parse(text) as { address?: unknown };
    return typeof address === 'string' && isAddress(address) ? address : undefined;
  } catch {
    return undefined;
  }
}
