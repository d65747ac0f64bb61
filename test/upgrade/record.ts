// Keeps what a released version leaves in its database, for the test of upgrades: pays in all the ways that the version
// knows, against its running `npm start`, then writes all rows into dumps/.
//   node test/upgrade/record.ts --checkout DIR --home PURSER_HOME --release NAME   (PURSER_POSTGRES_PORT as for npm start)
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { saveRelease } from './save-release.ts';

const payee = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
/** For payments to be sent, confirmed and told of. */
const settleMs = 8_000;

interface Facts {
  base_url: string;
  api_key: string;
  chain: string;
  rpc_url: string;
}

/** Asks, and goes on when that version does not know the question. */
async function ask(facts: Facts, method: string, path: string, body: unknown): Promise<{ id: string }> {
  const response = await fetch(`${facts.base_url}/api/v1${path}`, {
    method,
    headers: { 'X-API-Key': facts.api_key, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  console.error(`${method} ${path} ${response.status}${response.ok ? '' : ` ${text.slice(0, 200)}`}`);
  return JSON.parse(text) as { id: string };
}

async function rpc(facts: Facts, method: string, params: unknown[]): Promise<void> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  await fetch(facts.rpc_url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
}

async function payInAllWays(facts: Facts): Promise<void> {
  const { chain } = facts;
  const post = (path: string, body: unknown) => ask(facts, 'POST', path, body);
  const agent = await post('/agents', { agent_name: 'payer', chain });
  const asker = await post('/agents', { agent_name: 'asker', chain });
  await post('/webhooks', {
    ...{ url: 'https://hooks.example.com/purser', events: ['payment.completed', 'payment.failed'] },
    secret: `whsec_${randomBytes(24).toString('base64')}`,
  });
  await post('/policies', {
    agent_id: agent.id,
    type: 'spending_limit',
    rules: { max_transaction_amount: '500' },
  });
  await post('/policies', {
    agent_id: asker.id,
    type: 'human_approval',
    rules: { threshold: '1', approvers: ['approver@example.com'] },
  });
  const pay = (agentId: string, amount: string, token: string) =>
    post('/transactions', {
      ...{ agent_id: agentId, direction: 'outbound', type: 'transfer', chain },
      ...{ to_address: payee, amount, token },
    });
  await pay(agent.id, '1.5', 'USDC');
  await pay(agent.id, '0.01', 'ETH');
  await pay(agent.id, '501', 'USDC');
  await pay(agent.id, '499', 'ETH');
  await pay(asker.id, '2', 'USDC');
  await post('/x402/sessions', {
    ...{ agent_id: agent.id, chain, budget_limit: '5', ttl_seconds: 86_400 },
    allowed_urls: ['https://api.example.com/'],
  });
  await delay(settleMs);
  // No block takes these: they are open when the version is replaced.
  await rpc(facts, 'evm_setAutomine', [false]);
  await rpc(facts, 'evm_setIntervalMining', [0]);
  await pay(agent.id, '3', 'USDC');
  await pay(agent.id, '0.02', 'ETH');
  await delay(settleMs);
}

const { values } = parseArgs({
  options: { checkout: { type: 'string' }, home: { type: 'string' }, release: { type: 'string' } },
});
const { checkout, home, release } = values;
if (!checkout || !home || !release)
  throw new Error('Usage: node test/upgrade/record.ts --checkout DIR --home PURSER_HOME --release NAME');
const facts = JSON.parse(readFileSync(join(home, 'dev.json'), 'utf8')) as Facts;
await payInAllWays(facts);
const { superuser } = JSON.parse(readFileSync(join(home, 'postgres', 'passwords.json'), 'utf8')) as {
  superuser: string;
};
await saveRelease({
  databaseUrl: `postgres://postgres:${superuser}@127.0.0.1:${process.env.PURSER_POSTGRES_PORT ?? '5433'}/purser`,
  dir: join(checkout, 'shared', 'db', 'migrations'),
  file: join(fileURLToPath(new URL('dumps', import.meta.url)), `${release}.sql`),
});
