import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { BtcdRefused, type BtcdRpc } from './btcd-rpc.ts';
import { createEsploraIndex, type EsploraIndex } from './esplora-index.ts';
import { LOOPBACK } from './ports.ts';

/** Two hexadecimal digits for each byte of the largest standard transaction. */
const BODY_LIMIT_BYTES = 800_000;

/** A door in front of a btcd node that speaks the part of Esplora's HTTP API that Purser uses. */
export interface EsploraDoor {
  url: string;
  stop(): Promise<void>;
}

/** What is answered; a string goes out as text. */
type Answer = { status?: number; body: unknown };
type Handler = (index: EsploraIndex, rpc: BtcdRpc, parts: readonly string[]) => Promise<unknown>;

/**
 * Serves a small part of the Esplora HTTP API for a node of a local network. This is no Esplora: it has no index of its
 * own and asks the node each time, which is far too slow for a public network.
 * Source: https://github.com/Blockstream/esplora/blob/master/API.md
 * @param rpc of a btcd with `--txindex --addrindex`
 * @param port default: any free one
 */
export async function startEsploraDoor({ rpc, port = 0 }: { rpc: BtcdRpc; port?: number }): Promise<EsploraDoor> {
  const index = createEsploraIndex(rpc);
  const server = createServer((request, response) => {
    serve(request)
      .catch((error: unknown): Answer => ({ status: 500, body: (error as Error).message }))
      .then(({ status = 200, body }) => {
        const isText = typeof body === 'string';
        response.writeHead(status, { 'content-type': isText ? 'text/plain' : 'application/json' });
        response.end(isText ? body : JSON.stringify(body));
      });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, LOOPBACK, resolve);
  });
  return {
    url: `http://${LOOPBACK}:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };

  async function serve(request: IncomingMessage): Promise<Answer> {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    if (request.method === 'POST' && pathname === '/tx') return broadcast(rpc, await readBody(request));
    if (request.method !== 'GET') return { status: 404, body: 'endpoint does not exist' };
    for (const [pattern, handler] of routes) {
      const parts = pattern.exec(pathname);
      if (!parts) continue;
      const found = await handler(index, rpc, parts.slice(1));
      return found === undefined ? { status: 404, body: 'Not found' } : { body: found };
    }
    return { status: 404, body: 'endpoint does not exist' };
  }
}

const routes: readonly [RegExp, Handler][] = [
  [/^\/blocks\/tip\/hash$/, (_, rpc) => rpc('getbestblockhash')],
  [/^\/blocks\/tip\/height$/, async (_, rpc) => String(await rpc('getblockcount'))],
  [/^\/block-height\/(\d{1,9})$/, (_, rpc, [height]) => orNothing(rpc('getblockhash', Number(height)))],
  [/^\/block\/([0-9a-f]{64})$/, (_, rpc, [hash]) => block(rpc, hash!)],
  [/^\/block\/([0-9a-f]{64})\/txids$/, async (_, rpc, [hash]) => (await rawBlock(rpc, hash!))?.tx],
  [/^\/tx\/([0-9a-f]{64})$/, (index, _, [txid]) => index.transaction(txid!)],
  [/^\/tx\/([0-9a-f]{64})\/hex$/, (index, _, [txid]) => index.hex(txid!)],
  [
    /^\/tx\/([0-9a-f]{64})\/outspend\/(\d{1,6})$/,
    (index, _, [txid, vout]) => index.outspend({ txid: txid!, vout: Number(vout) }),
  ],
  [/^\/address\/(\w{1,90})$/, async (index, _, [address]) => ({ address, ...(await index.addressStats(address!)) })],
  [/^\/address\/(\w{1,90})\/utxo$/, (index, _, [address]) => index.coins(address!)],
  [/^\/address\/(\w{1,90})\/txs\/mempool$/, (index, _, [address]) => index.waitingOf(address!)],
  [
    /^\/address\/(\w{1,90})\/txs\/chain(?:\/([0-9a-f]{64}))?$/,
    (index, _, [address, after]) => index.minedOf(address!, after),
  ],
  // None, as of Bitcoin Core on regtest: where nobody else pays, a node would learn them from our own payments alone.
  [/^\/fee-estimates$/, async () => ({})],
];

interface NodeBlock {
  hash: string;
  height: number;
  version: number;
  time: number;
  nonce: number;
  merkleroot: string;
  size: number;
  weight: number;
  /** Absent of the first one. */
  previousblockhash?: string;
  tx: string[];
}

function rawBlock(rpc: BtcdRpc, hash: string): Promise<NodeBlock | undefined> {
  return orNothing(rpc<NodeBlock>('getblock', hash, 1));
}

async function block(rpc: BtcdRpc, hash: string) {
  const found = await rawBlock(rpc, hash);
  if (!found) return undefined;
  const { height, version, time, nonce, merkleroot, size, weight, previousblockhash = null, tx } = found;
  return {
    ...{ id: hash, height, version, timestamp: time, nonce, merkle_root: merkleroot },
    ...{ tx_count: tx.length, size, weight, previousblockhash },
  };
}

/** Esplora hands on what its node says, as text. */
async function broadcast(rpc: BtcdRpc, raw: string): Promise<Answer> {
  try {
    return { body: await rpc<string>('sendrawtransaction', raw) };
  } catch (error) {
    if (!(error instanceof BtcdRefused)) throw error;
    const { code, message } = error;
    return { status: 400, body: `sendrawtransaction RPC error: ${JSON.stringify({ code, message })}` };
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) {
    text += String(chunk);
    if (text.length > BODY_LIMIT_BYTES) throw new Error(`The body is larger than ${BODY_LIMIT_BYTES} bytes.`);
  }
  return text.trim();
}

/** What the node refuses to look up, is not there. */
async function orNothing<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof BtcdRefused) return undefined;
    throw error;
  }
}
