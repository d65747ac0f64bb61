// `node test/replay/record.ts`: records histories against a running `npm start`, for replay.test.ts to hold new code to.
// Run it for a flow that is new; a history that is there already stays, for it is what running payments look like.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { accountKeyWorkflowId, approvalMailWorkflowId } from '../../shared/temporal.ts';
import { createTestClient, eventually } from '../support/client.ts';

const dev = JSON.parse(readFileSync(join(process.env.PURSER_HOME ?? '.purser', 'dev.json'), 'utf8')) as Record<
  'base_url' | 'api_key' | 'account_id' | 'temporal_address' | 'chain' | 'token_url',
  string
>;
const client = createTestClient({ baseUrl: dev.base_url, apiKey: dev.api_key });
const connection = await Connection.connect({ address: dev.temporal_address });
const temporal = new Client({ connection });

async function save(name: string, workflowId: string): Promise<void> {
  const file = new URL(`./${name}.json`, import.meta.url);
  if (existsSync(file)) return console.log(`${name}: kept`);
  const history = JSON.parse(historyToJSON(await temporal.workflow.getHandle(workflowId).fetchHistory()));
  // Which machine recorded it is nobody's business, and no part of what is replayed.
  const text = JSON.stringify(history, (key, value) => (key === 'identity' ? 'worker' : value), 1);
  writeFileSync(file, `${text}\n`);
  console.log(`${name}: recorded from ${workflowId}`);
}

async function send(amount: string, agentId: string): Promise<string> {
  const { body } = await client.post('/transactions', {
    ...{ agent_id: agentId, direction: 'outbound', type: 'transfer', chain: dev.chain, token: 'USDC', amount },
    to_address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  });
  return body.id ?? body.details.transaction_id;
}

async function pay(amount: string, agentId: string): Promise<string> {
  const id = await send(amount, agentId);
  await ended(id);
  return id;
}

async function ended(id: string): Promise<void> {
  await eventually(
    () => client.get(`/transactions/${id}`),
    (answer) => answer.body.status !== 'pending',
    { timeoutMs: 90_000 },
  );
  await temporal.workflow.getHandle(id).result();
}

const approver = 'treasurer@example.com';

/** A payment that a person answers once the mail has gone out. @returns its id and that of the question */
async function answer(verb: 'approve' | 'reject', agentId: string): Promise<{ id: string; approvalId: string }> {
  const id = await send('1', agentId);
  const told = await eventually(
    () => client.get(`/approvals?agent_id=${agentId}`),
    ({ body }) => body.data[0]?.transaction_id === id && body.data[0].notices[0].status === 'sent',
    { timeoutMs: 30_000 },
  );
  const post = async (url: string, body: object, headers: Record<string, string> = {}) => {
    const init = { method: 'POST', headers: { 'Content-Type': 'application/json', ...headers } };
    const response = await fetch(url, { ...init, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${url}: ${await response.text()}`);
    return (await response.json()) as { access_token: string };
  };
  const { access_token } = await post(dev.token_url, { email: approver });
  await post(`${dev.base_url}/api/v1/transactions/${id}/${verb}`, {}, { Authorization: `Bearer ${access_token}` });
  await ended(id);
  return { id, approvalId: told.body.data[0].id };
}

const agent = (await client.post('/agents', { agent_name: `recorder ${Date.now()}`, chain: dev.chain })).body
  .id as string;
await save('account-key', accountKeyWorkflowId(dev.account_id));
await save('transaction-confirmed', await pay('1.5', agent));
await save('transaction-insufficient-funds', await pay('99999', agent));
const rules = { max_transaction_amount: '2' };
await client.post('/policies', { agent_id: agent, type: 'spending_limit', rules });
await save('transaction-denied', await pay('2.5', agent));
// A minute is the shortest time that a person can be given.
const waiting = (await client.post('/agents', { agent_name: `waiting ${Date.now()}`, chain: dev.chain })).body
  .id as string;
const asking = { threshold: '0', approvers: ['nobody@example.com'], timeout_seconds: 60 };
await client.post('/policies', { agent_id: waiting, type: 'human_approval', rules: asking });
await save('transaction-approval-expired', await pay('1', waiting));
const approved = (await client.post('/agents', { agent_name: `approved ${Date.now()}`, chain: dev.chain })).body
  .id as string;
const answering = { threshold: '0', approvers: [approver] };
await client.post('/policies', { agent_id: approved, type: 'human_approval', rules: answering });
const { id: approvedId, approvalId } = await answer('approve', approved);
await save('transaction-approved', approvedId);
await save('approval-mail', approvalMailWorkflowId(approvalId));
await save('transaction-rejected', (await answer('reject', approved)).id);
await connection.close();
