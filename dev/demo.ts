// `npm run demo`: does the main job as a client would, over HTTP, against a running `npm start`.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Address, createPublicClient, erc20Abi, formatEther, formatUnits, http } from 'viem';
import { z } from 'zod';

const confirmWithinMs = 60_000;
const pollMs = 100;
/** Somebody who is paid: one of the local chain's well-known accounts. */
const recipient: Address = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';

const devFile = z.object({
  base_url: z.url(),
  api_key: z.string(),
  temporal_ui: z.string(),
  rpc_url: z.url(),
  chain: z.string(),
  usdc_address: z.string(),
});
const agentShape = z.object({ id: z.string(), wallet: z.object({ address: z.string() }) });
const transactionShape = z.object({
  id: z.string(),
  hash: z.string().nullable(),
  status: z.enum(['pending', 'confirmed', 'failed']),
  fee: z.string().nullable(),
  failure_message: z.string().nullish(),
});

function readDevFile() {
  const file = join(process.env.PURSER_HOME ?? '.purser', 'dev.json');
  try {
    return devFile.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    console.error(
      `${file} cannot be read: start the service first (npm start), in this folder or with the same PURSER_HOME.`,
    );
    process.exit(1);
  }
}

const dev = readDevFile();
const chain = createPublicClient({ transport: http(dev.rpc_url) });

async function call<T>(schema: z.ZodType<T>, path: string, body?: unknown): Promise<T> {
  const response = await fetch(`${dev.base_url}/api/v1${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'X-API-Key': dev.api_key, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer: unknown = await response.json();
  if (!response.ok) throw new Error(`${path}: HTTP ${response.status} ${JSON.stringify(answer)}`);
  return schema.parse(answer);
}

async function showBalances(title: string, owner: Address): Promise<void> {
  const [wei, minor] = await Promise.all([
    chain.getBalance({ address: owner }),
    chain.readContract({
      address: dev.usdc_address as Address,
      abi: erc20Abi,
      functionName: 'balanceOf',
      args: [owner],
    }),
  ]);
  console.log(`  ${title.padEnd(16)} ${formatEther(wei)} ETH, ${formatUnits(minor, 6)} USDC`);
}

async function pay(agentId: string, amount: string, token: string): Promise<void> {
  const from = performance.now();
  const sent = await call(transactionShape, '/transactions', {
    agent_id: agentId,
    direction: 'outbound',
    type: 'transfer',
    to_address: recipient,
    amount,
    token,
    chain: dev.chain,
    memo: 'demo',
  });
  console.log(`\nSent ${amount} ${token}: ${sent.id}, answered after ${(performance.now() - from).toFixed(0)} ms`);
  const ended = await untilFinal(sent.id);
  if (ended.status === 'failed') throw new Error(`${ended.id} failed: ${ended.failure_message}`);
  console.log(`  ${ended.status} after ${(performance.now() - from).toFixed(0)} ms, fee ${ended.fee} ETH`);
  console.log(`  hash      ${ended.hash}`);
  console.log(`  workflow  ${dev.temporal_ui}/namespaces/default/workflows/${ended.id}`);
}

async function untilFinal(id: string): Promise<z.output<typeof transactionShape>> {
  for (const deadline = Date.now() + confirmWithinMs; Date.now() < deadline; await delay(pollMs)) {
    const transaction = await call(transactionShape, `/transactions/${id}`);
    if (transaction.status !== 'pending') return transaction;
  }
  throw new Error(`${id} was not final within ${confirmWithinMs / 1000} s; look at ${dev.temporal_ui}`);
}

const agent = await call(agentShape, '/agents', { agent_name: `demo ${new Date().toISOString()}`, chain: dev.chain });
const wallet = agent.wallet.address as Address;
console.log(`Agent ${agent.id} has wallet ${wallet}`);
console.log('\nBefore');
await showBalances('agent', wallet);
await showBalances('recipient', recipient);
await pay(agent.id, '12.5', 'USDC');
await pay(agent.id, '0.25', 'ETH');
console.log('\nAfter');
await showBalances('agent', wallet);
await showBalances('recipient', recipient);
