// `npm run demo`: does the main job as clients would, over HTTP, against a running `npm start`: an owner signs in, makes an
// agent, a limit for it and a key for it alone; the agent pays with that key.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Address, createPublicClient, erc20Abi, formatEther, formatUnits, http } from 'viem';
import { z } from 'zod';
import { fail, printResult, readCommandLine } from '../shared/command-line.ts';
import { OWNER_EMAIL } from './account.ts';
import { signInAt } from './sign-in-at.ts';

const confirmWithinMs = 60_000;
const pollMs = 100;
/** Somebody who is paid: one of the local chain's well-known accounts. */
const recipient: Address = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';

const devFile = z.object({
  base_url: z.url(),
  account_id: z.string(),
  temporal_ui: z.string(),
  rpc_url: z.url(),
  chain: z.string(),
  usdc_address: z.string(),
});
const anyShape = z.looseObject({});
const idShape = z.object({ id: z.string() });
const keyShape = z.object({ id: z.string(), key: z.string(), prefix: z.string() });
const agentShape = z.object({ id: z.string(), wallet: z.object({ address: z.string() }) });
const errorShape = z.object({ code: z.string(), message: z.string() });
const transactionShape = z.object({
  id: z.string(),
  hash: z.string().nullable(),
  status: z.enum(['pending', 'confirmed', 'failed']),
  fee: z.string().nullable(),
  failure_message: z.string().nullish(),
});

const { json } = readCommandLine(
  `Usage: npm run demo [-- --json]

  Makes an agent with a limit and a key of its own, and pays with it, against a running npm start. Exit status: 0 all went
  well, 1 something did not, 2 the command line is wrong. With --json the result is one JSON value, and what it does is told
  on the error output.`,
  {},
);
const say = json ? console.error : console.log;

function readDevFile() {
  const file = join(process.env.PURSER_HOME ?? '.purser', 'dev.json');
  try {
    return devFile.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    return fail(
      `${file} cannot be read: start the service first (npm start), in this folder or with the same PURSER_HOME.`,
    );
  }
}

const dev = readDevFile();
const chain = createPublicClient({ transport: http(dev.rpc_url) });

type Method = 'GET' | 'POST' | 'DELETE';

/** Asks the service as somebody. */
function callerWith(credentials: Record<string, string>) {
  const ask = (method: Method, path: string, body?: unknown) =>
    fetch(`${dev.base_url}/api/v1${path}`, {
      method,
      headers: { ...credentials, ...(body !== undefined && { 'Content-Type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return {
    ask,
    async call<T>(schema: z.ZodType<T>, method: Method, path: string, body?: unknown): Promise<T> {
      const response = await ask(method, path, body);
      const answer: unknown = await response.json();
      if (!response.ok) throw new Error(`${method} ${path}: HTTP ${response.status} ${JSON.stringify(answer)}`);
      return schema.parse(answer);
    },
  };
}
type Client = ReturnType<typeof callerWith>;

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
  say(`  ${title.padEnd(16)} ${formatEther(wei)} ETH, ${formatUnits(minor, 6)} USDC`);
}

async function pay(client: Client, o: { agentId: string; amount: string; token: string }) {
  const from = performance.now();
  const sent = await client.call(transactionShape, 'POST', '/transactions', {
    agent_id: o.agentId,
    direction: 'outbound',
    type: 'transfer',
    to_address: recipient,
    amount: o.amount,
    token: o.token,
    chain: dev.chain,
    memo: 'demo',
  });
  say(`\nSent ${o.amount} ${o.token}: ${sent.id}, answered after ${(performance.now() - from).toFixed(0)} ms`);
  const ended = await untilFinal(client, sent.id);
  if (ended.status === 'failed') throw new Error(`${ended.id} failed: ${ended.failure_message}`);
  say(`  ${ended.status} after ${(performance.now() - from).toFixed(0)} ms, fee ${ended.fee} ETH`);
  say(`  hash      ${ended.hash}`);
  say(`  workflow  ${dev.temporal_ui}/namespaces/default/workflows/${ended.id}`);
  return ended;
}

async function untilFinal(client: Client, id: string): Promise<z.output<typeof transactionShape>> {
  for (const deadline = Date.now() + confirmWithinMs; Date.now() < deadline; await delay(pollMs)) {
    const transaction = await client.call(transactionShape, 'GET', `/transactions/${id}`);
    if (transaction.status !== 'pending') return transaction;
  }
  throw new Error(`${id} was not final within ${confirmWithinMs / 1000} s; look at ${dev.temporal_ui}`);
}

/** Does what must not work. */
async function tryInVain(client: Client, what: string, ...request: Parameters<Client['ask']>): Promise<void> {
  const response = await client.ask(...request);
  if (response.ok) throw new Error(`${what} worked, and should not have.`);
  const { code, message } = errorShape.parse(await response.json());
  say(`\n${what}: ${response.status} ${code}\n  ${message}`);
}

async function main(): Promise<void> {
  const { access_token: token } = await signInAt({
    baseUrl: dev.base_url,
    email: OWNER_EMAIL,
    accountId: dev.account_id,
  });
  const owner = callerWith({ Authorization: `Bearer ${token}` });
  say(`Signed in as ${OWNER_EMAIL}`);
  const agent = await owner.call(agentShape, 'POST', '/agents', {
    agent_name: `demo ${new Date().toISOString()}`,
    chain: dev.chain,
  });
  const wallet = agent.wallet.address as Address;
  say(`Agent ${agent.id} has wallet ${wallet}`);
  const limit = { max_transaction_amount: '100', token: 'USDC' };
  const policy = await owner.call(idShape, 'POST', '/policies', {
    agent_id: agent.id,
    type: 'spending_limit',
    rules: limit,
  });
  say(`Policy ${policy.id} lets it send at most ${limit.max_transaction_amount} ${limit.token} at once`);
  const key = await owner.call(keyShape, 'POST', '/api-keys', { name: 'demo', agent_id: agent.id });
  say(`Key ${key.prefix} is for this agent alone: from here on the agent acts, with nothing but that key`);

  const byAgent = callerWith({ 'X-API-Key': key.key });
  say('\nBefore');
  await showBalances('agent', wallet);
  await showBalances('recipient', recipient);
  const payments = [
    await pay(byAgent, { agentId: agent.id, amount: '12.5', token: 'USDC' }),
    await pay(byAgent, { agentId: agent.id, amount: '0.25', token: 'ETH' }),
  ];
  await tryInVain(byAgent, 'The agent tries to be rid of its limit', 'DELETE', `/policies/${policy.id}`);
  say('\nAfter');
  await showBalances('agent', wallet);
  await showBalances('recipient', recipient);

  await owner.call(anyShape, 'DELETE', `/api-keys/${key.id}`);
  await owner.call(anyShape, 'POST', '/auth/logout');
  say('\nThe key is deleted, and the owner is signed out.');
  if (json) printResult({ agent_id: agent.id, wallet, policy_id: policy.id, payments }, { json });
}

main().catch((error: Error) => fail(error.message));
