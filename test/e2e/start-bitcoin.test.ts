import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { REGTEST_CHAIN } from '../../dev/btcd.ts';
import { payee } from '../support/bitcoin-payees.ts';
import { createTestClient, eventually } from '../support/client.ts';
import { type DevStack, nothingLeft, npmStart, processesOf } from '../support/dev-stack.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const STOP_TIMEOUT_MS = 120_000;
/** Two starts of a whole stack, on a machine that may be busy. */
const twoStartsMs = 900_000;
const soon = { timeoutMs: 180_000 };

let dir: string;
let home: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'purser-start-bitcoin-'));
  chmodSync(dir, 0o711);
  home = join(dir, 'home');
});
afterAll(async () => {
  for (const { pid } of processesOf(home)) process.kill(pid, 'SIGKILL');
  await nothingLeft(home, { timeoutMs: STOP_TIMEOUT_MS });
  rmSync(dir, { recursive: true, force: true });
});

async function start(): Promise<DevStack> {
  const stack = npmStart({ cwd: root, home, args: ['--bitcoin'] });
  await stack.says('Ctrl-C stops everything');
  return stack;
}
async function stop(stack: DevStack): Promise<void> {
  stack.signalJob('SIGINT');
  await stack.exitCode;
  await nothingLeft(home, { timeoutMs: STOP_TIMEOUT_MS });
}
function clientOf(stack: DevStack) {
  const { base_url: baseUrl, api_key: apiKey } = stack.facts();
  return createTestClient({ baseUrl, apiKey });
}
async function pay(stack: DevStack, agentId: string): Promise<string> {
  const client = clientOf(stack);
  const sent = await client.post('/transactions', {
    ...{ agent_id: agentId, direction: 'outbound', type: 'transfer', chain: REGTEST_CHAIN, token: 'BTC' },
    ...{ to_address: payee('p2tr'), amount: '0.25' },
  });
  expect(sent.status).toBe(200);
  const { body } = await eventually(
    () => client.get(`/transactions/${sent.body.id}`),
    ({ body }) => body.status !== 'pending',
    soon,
  );
  expect(body).toMatchObject({ status: 'confirmed', hash: expect.stringMatching(/^[0-9a-f]{64}$/) });
  return body.hash;
}
const statusOf = async (stack: DevStack, hash: string) =>
  (await fetch(`${stack.facts().bitcoin_url}/tx/${hash}`)).json() as Promise<{ status: object }>;

it(
  'npm start -- --bitcoin pays BTC at once, and goes on with the same chain after a second start',
  async () => {
    const first = await start();
    expect(first.output()).toContain(REGTEST_CHAIN);
    expect(first.facts()).toMatchObject({
      ...{ chain: 'eip155:31337', bitcoin_chain: REGTEST_CHAIN },
      bitcoin_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    });
    const { body: agent } = await clientOf(first).post('/agents', { agent_name: 'bitcoin', chain: REGTEST_CHAIN });
    expect(agent.wallet.address).toMatch(/^bcrt1q/);
    const { body: balances } = await clientOf(first).get(`/agents/${agent.id}/balances`);
    expect(balances.data).toMatchObject([{ token: 'BTC', amount: '1' }]);
    const hash = await pay(first, agent.id);
    const { status } = await statusOf(first, hash);
    expect(status).toMatchObject({ confirmed: true });
    await stop(first);

    const second = await start();
    expect((await statusOf(second, hash)).status).toEqual(status);
    await pay(second, agent.id);
    await stop(second);
  },
  twoStartsMs,
);
