import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { SignerEndpoint } from '../../signer/client.ts';
import { parsePublicIdentity } from '../../signer/identity.ts';
import type { Party } from '../../signer/parties.ts';
import { ANSWER_HEADER, REQUEST_HEADER, signAnswer } from '../../signer/wire.ts';
import { readEnvelope, writeEnvelope } from './hostile-envelope.ts';
import type { TestSigners } from './signers.ts';

/** Inside the oblivious transfer of the first message: whoever takes it knows that its sender cheated. */
const fatalByte = 507;

/** Signer 1 in other hands: real, but for its first message to signer 2, which cheats when it is told to. */
export interface CheatingRelay {
  readonly endpoints: SignerEndpoint[];
  isCheating: boolean;
  stop(): Promise<void>;
}

/** Stands before signer 1, and has its identity: what it changes, it signs as the signer would. */
export async function startCheatingRelay(signers: TestSigners): Promise<CheatingRelay> {
  const own = await signers.identityOf(1);
  const endpoint = (party: Party) => signers.endpoints.find((each) => each.party === party)!;
  const relay = { isCheating: false };

  async function cheat(body: Buffer, token: string): Promise<{ body: Buffer; answer: string }> {
    const { message } = JSON.parse(body.toString('utf8')) as { message: string };
    const sent = await readEnvelope(await signers.identityOf(2), message);
    sent.body[fatalByte]! ^= 1;
    const receiver = await parsePublicIdentity(endpoint(2).publicKey);
    const said = { ...JSON.parse(body.toString('utf8')), message: await writeEnvelope({ own, receiver }, sent) };
    const changed = Buffer.from(JSON.stringify(said));
    const { nonce } = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString('utf8'));
    return { body: changed, answer: await signAnswer(own.signingKey, { from: 1, nonce, status: 200, body: changed }) };
  }

  const server = createServer(async (req, res) => {
    try {
      const asked = await buffer(req);
      const answered = await exchange(new URL(req.url!, endpoint(1).url), req.method!, req.headers, asked);
      const isFirst = req.url === '/v1/sign/start' && answered.status === 200;
      const isToSecond = isFirst && JSON.parse(asked.toString('utf8')).counterparty === 2;
      const { body, answer } =
        relay.isCheating && isToSecond
          ? await cheat(answered.body, String(req.headers[REQUEST_HEADER]))
          : { body: answered.body, answer: answered.answer };
      res.writeHead(answered.status, {
        'content-type': 'application/json',
        ...(answer && { [ANSWER_HEADER]: answer }),
      });
      res.end(body);
    } catch {
      res.destroy();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(relay, {
    endpoints: signers.endpoints.map((each) => (each.party === 1 ? { ...each, url } : each)),
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

function exchange(url: URL, method: string, headers: NodeJS.Dict<string | string[]>, body: Buffer) {
  return new Promise<{ status: number; body: Buffer; answer: string | undefined }>((resolve, reject) => {
    const { host: _host, connection: _connection, ...rest } = headers;
    const req = request(url, { method, headers: rest, agent: false }, (res) => {
      buffer(res).then((answered) => {
        const answer = res.headers[ANSWER_HEADER];
        resolve({ status: res.statusCode!, body: answered, answer: typeof answer === 'string' ? answer : undefined });
      }, reject);
    });
    req.on('error', reject);
    req.end(body);
  });
}
