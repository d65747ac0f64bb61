import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EvmTransaction } from '../../../shared/domain/receipt.ts';
import { createSignerClient, type SignerClient, type SignerEndpoint } from '../../../signer/client.ts';
import { SignerUnavailable } from '../../../signer/errors.ts';
import { loadCoordinatorIdentity, loadSignerIdentity } from '../../../signer/identity.ts';
import { initSecrets } from '../../../signer/init.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import { ANSWER_HEADER, REQUEST_HEADER, signAnswer } from '../../../signer/wire.ts';

const address = '0x00000000000000000000000000000000000000aa';
const payee = '0x00000000000000000000000000000000000000bb';
const transaction: EvmTransaction = {
  ...{ chainId: 31_337, nonce: 0, to: payee, valueWei: '1', data: '0x' as const },
  ...{ gas: '21000', maxFeePerGasWei: '2', maxPriorityFeePerGasWei: '1' },
};
const dir = mkdtempSync(join(tmpdir(), 'purser-later-'));
const servers: Server[] = [];
let client: SignerClient;

/** A double of a signer: whatever it is asked, it refuses in a word that only later versions know. */
async function startLaterSigner(party: Party): Promise<SignerEndpoint> {
  const { identityFile } = await initSecrets({ kind: 'signer', dir: join(dir, String(party)) });
  const { signingKey, publicKey } = await loadSignerIdentity(identityFile);
  const server = createServer(async (request, response) => {
    const token = String(request.headers[REQUEST_HEADER]);
    const { nonce } = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString('utf8'));
    const body = Buffer.from(JSON.stringify({ code: 'asleep', message: `signer ${party} sleeps`, culprit: null }));
    const answer = await signAnswer(signingKey, { from: party, nonce, status: 409, body });
    response.writeHead(409, { 'content-type': 'application/json', [ANSWER_HEADER]: answer }).end(body);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { party, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, publicKey };
}

beforeAll(async () => {
  const signers = await Promise.all(PARTIES.map(startLaterSigner));
  const { identityFile } = await initSecrets({ kind: 'coordinator', dir });
  client = createSignerClient({ signers, identity: await loadCoordinatorIdentity(identityFile) });
});
afterAll(async () => {
  client.close();
  for (const server of servers) server.closeAllConnections();
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  rmSync(dir, { recursive: true, force: true });
});

describe('signers of a later version', () => {
  it('that refuse in words of their own are asked again later: no payment ends by that', async () => {
    const payload = { kind: 'evm-transaction', transaction } as const;
    const asked = { keyId: 'ckey_1', path: 'm/44/60/0/0/0', address, payload, receipt: 'a.b.c' };
    const refused = await client.sign(asked).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(SignerUnavailable);
    expect((refused as Error).message).toMatch(/no two signers could sign: signer \d sleeps/);
  });
});
