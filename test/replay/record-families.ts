// `node test/replay/record-families.ts`: as record.ts, for payments on Bitcoin and Tron. It starts a stack of its own, for
// the double of a Tron node has to be in the same process.
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { REGTEST_CHAIN } from '../../dev/btcd.ts';
import { createTestClient, eventually } from '../support/client.ts';
import { NILE_CHAIN, startOwnStack } from '../support/own-stack.ts';
import { TronChainDouble } from '../support/tron-chain-double.ts';
import { saveHistory } from './save-history.ts';

const btc = 100_000_000n;
/** See `absentUntil` of the Tron adapter: later than this after an expiration nothing can be taken any more. */
const provenAfterMs = 31_000;
const tron = new TronChainDouble({ chain: NILE_CHAIN, nowMs: Date.now() });
const stack = await startOwnStack({ bitcoin: true, tron });
const bitcoin = stack.bitcoin!;
const client = createTestClient(stack);
const connection = await Connection.connect({ address: stack.temporalAddress });
const temporal = new Client({ connection });

const solidify = (timestampMs = Date.now()) => {
  for (let block = 0; block <= tron.solidityLag; block += 1)
    tron.produce({ timestampMs: Math.max(timestampMs, tron.head.timestampMs + 1) });
};
async function newAgent(chain: string): Promise<{ id: string; address: string }> {
  const { body } = await client.post('/agents', { agent_name: `recorder ${chain}`, chain });
  return { id: body.id, address: body.wallet.address };
}
async function send(agentId: string, payment: { chain: string; token: string; amount: string; to_address: string }) {
  const { status, body } = await client.post('/transactions', {
    ...{ agent_id: agentId, direction: 'outbound', type: 'transfer' },
    ...payment,
  });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.id as string;
}
// biome-ignore lint/suspicious/noExplicitAny: a transaction as on the wire
const until = async (id: string, isRight: (body: any) => boolean) =>
  (
    await eventually(
      () => client.get(`/transactions/${id}`),
      ({ body }) => isRight(body),
      { timeoutMs: 90_000 },
    )
  ).body;
const signed = (id: string, count = 1) =>
  until(id, ({ attempts, status_detail }) => attempts.length === count && status_detail === 'broadcast');
async function ended(id: string): Promise<void> {
  await until(id, ({ status }) => status !== 'pending');
  await temporal.workflow.getHandle(id).result();
}
const save = (name: string, workflowId: string) => saveHistory(temporal, { name, workflowId });

const onBitcoin = await newAgent(REGTEST_CHAIN);
await bitcoin.fund(onBitcoin.address, [btc, btc, btc]);
await bitcoin.mine();
await delay(1_000);
const payBtc = (amount: string) =>
  send(onBitcoin.id, {
    ...{ chain: REGTEST_CHAIN, token: 'BTC', amount },
    to_address: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
  });
async function mined(id: string, count: number): Promise<void> {
  const { attempts } = await signed(id, count);
  await eventually(bitcoin.waiting, (hashes) => hashes.includes(attempts.at(-1).hash), { timeoutMs: 30_000 });
  await bitcoin.mine();
  await ended(id);
}
// Two coins, and so two signatures.
const joined = await payBtc('1.5');
await mined(joined, 1);
await save('transaction-bitcoin-confirmed', joined);
for (const [name, verb] of [
  ['transaction-bitcoin-sped-up', 'speed-up'],
  ['transaction-bitcoin-cancelled', 'cancel'],
] as const) {
  const id = await payBtc('0.1');
  await signed(id);
  await client.post(`/transactions/${id}/${verb}`, {});
  await mined(id, 2);
  await save(name, id);
}
// Refused when it was first sent, at first by nodes that ask for more than the ceiling.
const tooCheap = (wantedSat: number) => ({ status: 400, body: `min relay fee not met, 282 < ${wantedSat}` });
bitcoin.proxy.set({ instead: (path) => (path === '/tx' ? tooCheap(99_999_999) : undefined) });
const cheap = await payBtc('0.1');
await until(cheap, ({ notice }) => notice?.includes('the ceiling is'));
let refused: string | undefined;
bitcoin.proxy.set({
  instead(path, body) {
    if (path !== '/tx') return undefined;
    refused ??= body;
    return body === refused ? tooCheap(2820) : undefined;
  },
});
await mined(cheap, 2);
await save('transaction-bitcoin-too-cheap', cheap);
bitcoin.proxy.set({});
// The last coins are under way with the first payment: the second one waits for its change.
const [first, second] = [await payBtc('1.2'), await payBtc('0.05')];
await mined(first, 1);
await mined(second, 1);
await save('transaction-bitcoin-queued', second);

const onTron = await newAgent(NILE_CHAIN);
tron.setAccount(onTron.address, { balanceSun: 1_000_000_000n });
solidify();
const payTrx = () =>
  send(onTron.id, {
    ...{ chain: NILE_CHAIN, token: 'TRX', amount: '1' },
    to_address: 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8',
  });
const paid = await payTrx();
await signed(paid);
solidify();
await ended(paid);
await save('transaction-tron-confirmed', paid);
const lost = await payTrx();
const { attempts } = await signed(lost);
tron.forgetPending();
solidify(Date.parse(attempts[0].expires_at) + provenAfterMs);
await ended(lost);
await save('transaction-tron-expired', lost);
await connection.close();
await stack.stop();
process.exit(0);
