import { type Address, createPublicClient, erc20Abi, http } from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';

const recoverWithinMs = 180_000;

let stack: OwnStack;
let client: TestClient;
let agent: { id: string; wallet: { address: Address } };

beforeAll(async () => {
  stack = await startOwnStack({ apis: 2 });
  client = createTestClient(stack);
  agent = (await client.post('/agents', { agent_name: 'once', chain: 'eip155:31337' })).body;
});
afterAll(() => stack?.stop());

/** One attempt of a client that sends the same again until it is answered. */
async function send(baseUrl: string, key: string, to: Address) {
  const response = await fetch(`${baseUrl}/api/v1/transactions`, {
    method: 'POST',
    headers: { 'x-api-key': stack.apiKey, 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify({
      ...{ agent_id: agent.id, direction: 'outbound', type: 'transfer', chain: 'eip155:31337' },
      ...{ to_address: to, amount: '1', token: 'USDC' },
    }),
  });
  return { status: response.status, body: (await response.json()) as { id: string; code?: string } };
}

it('a POST that is sent again and again, while an api process is killed, is one transfer (F18)', async () => {
  const chain = createPublicClient({ transport: http(stack.rpcUrl) });
  const recipients = Array.from({ length: 4 }, () => privateKeyToAddress(generatePrivateKey()));
  let kills = 0;
  const paid = await Promise.all(
    recipients.map(async (to, i) => {
      const attempts = Array.from({ length: 5 }, (_, attempt) =>
        send(stack.apiUrls[(i + attempt) % 2]!, to, to).catch(() => undefined),
      );
      await attempts[0];
      if (kills === 0) {
        kills += 1;
        process.kill(stack.pid('api'), 'SIGKILL');
      }
      const last = await eventually(
        () => send(stack.apiUrls[i % 2]!, to, to),
        ({ status }) => status === 200,
        { timeoutMs: recoverWithinMs },
      );
      for (const answer of await Promise.all(attempts))
        if (answer?.status === 200) expect(answer.body).toEqual(last.body);
      return last.body.id;
    }),
  );
  expect(new Set(paid).size).toBe(recipients.length);
  for (const id of paid)
    await eventually(
      () => client.get(`/transactions/${id}`),
      ({ body }) => body.status === 'confirmed',
      { timeoutMs: recoverWithinMs },
    );
  const received = (owner: Address) =>
    chain.readContract({ address: stack.usdcAddress, abi: erc20Abi, functionName: 'balanceOf', args: [owner] });
  expect(await Promise.all(recipients.map(received))).toEqual(recipients.map(() => 1_000_000n));
  expect(await chain.getTransactionCount({ address: agent.wallet.address })).toBe(recipients.length);
  expect((await client.get(`/transactions?agent_id=${agent.id}`)).body.total).toBe(recipients.length);
});
