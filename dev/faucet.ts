import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isAddress, parseEther, parseUnits } from 'viem';
import { REGTEST_CHAIN } from './btcd.ts';
import { LOOPBACK } from './ports.ts';
import type { LocalToken } from './token.ts';

/** What a new wallet is raised to on the local EVM chain. */
const FUNDS = { wei: parseEther('10'), minorUnits: parseUnits('10000', 6) };
const BODY_LIMIT_BYTES = 1_024;

/** The faucet of the local chains. */
export interface Faucet {
  url: string;
  stop(): Promise<void>;
}

/** Raises an address to what a new wallet has there; resolves when mined. */
type Fund = (address: string) => Promise<void>;

/**
 * Serves `POST /fund {"address": "0x…", "chain": "eip155:31337"}` on a free port: raises the wallet to 10 ETH and 10,000
 * USDC, or to 1 BTC, and answers 200 when it is mined. A repeat gives nothing twice.
 * @param bitcoin where there is a local Bitcoin network
 */
export async function startFaucet(token: LocalToken, bitcoin?: { fund: Fund } | undefined): Promise<Faucet> {
  /** How an address of a chain gets its coins; undefined where it is none of ours. */
  function funderOf({ address, chain }: { address: string; chain: string | undefined }): Fund | undefined {
    if (chain === REGTEST_CHAIN) return bitcoin?.fund;
    if (!isAddress(address)) return undefined;
    return () => token.topUp({ address, ...FUNDS });
  }

  const server = createServer(async (request, response) => {
    const answer = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    try {
      if (request.method !== 'POST' || request.url !== '/fund') return answer(404, { message: 'Use POST /fund.' });
      const wanted = await readWish(request);
      const fund = wanted && funderOf(wanted);
      if (!fund) return answer(400, { message: 'The body must be {"address": "…", "chain": "…"}, of a local chain.' });
      await fund(wanted.address);
      answer(200, { address: wanted.address });
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

/** What the body asks for; undefined if it is no such body. */
async function readWish(request: IncomingMessage): Promise<{ address: string; chain: string | undefined } | undefined> {
  let text = '';
  for await (const chunk of request) {
    text += String(chunk);
    if (text.length > BODY_LIMIT_BYTES) return undefined;
  }
  try {
    const { address, chain } = JSON.parse(text) as { address?: unknown; chain?: unknown };
    if (typeof address !== 'string') return undefined;
    return { address, chain: typeof chain === 'string' ? chain : undefined };
  } catch {
    return undefined;
  }
}
