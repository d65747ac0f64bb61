// `node test/replay/record.ts`: records histories against a running `npm start`, for replay.test.ts to hold new code to.
// Run it for a flow that is new; a history that is there already stays, for it is what running payments look like.
import { accountKeyWorkflowId, approvalMailWorkflowId } from '../../shared/temporal.ts';
import { eventually } from '../support/client.ts';
import { approver, client, connection, dev, node, postAsApprover, save, temporal } from './recorder.ts';

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

/** A payment that a person answers once the mail has gone out. @returns its id and that of the question */
async function answer(verb: 'approve' | 'reject', agentId: string): Promise<{ id: string; approvalId: string }> {
  const id = await send('1', agentId);
  const told = await eventually(
    () => client.get(`/approvals?agent_id=${agentId}`),
    ({ body }) => body.data[0]?.transaction_id === id && body.data[0].notices[0].status === 'sent',
    { timeoutMs: 30_000 },
  );
  await postAsApprover(`/transactions/${id}/${verb}`);
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

// What no block takes: the chain is told to mine nothing meanwhile.
async function stuck(work: (id: string) => Promise<void>): Promise<string> {
  const { body } = await client.post('/agents', { agent_name: `stuck ${Date.now()}`, chain: dev.chain });
  await node.setAutomine(false);
  try {
    const id = await send('1', body.id);
    await signed(id, 1);
    await work(id);
    return id;
  } finally {
    await node.setAutomine(true);
    await node.mine({ blocks: 1 });
  }
}
const signed = (id: string, count: number) =>
  eventually(
    () => client.get(`/transactions/${id}`),
    ({ body }) => body.attempts.length === count && body.status_detail === 'broadcast',
    { timeoutMs: 30_000 },
  );
for (const [name, verb] of [
  ['transaction-sped-up', 'speed-up'],
  ['transaction-cancelled', 'cancel'],
] as const) {
  const id = await stuck(async (stuckId) => {
    await client.post(`/transactions/${stuckId}/${verb}`, {});
    await signed(stuckId, 2);
  });
  await ended(id);
  await save(name, id);
}
// Executed without the money that was there before.
const reverted = await stuck(async (id) => {
  const { from_address: owner } = (await client.get(`/transactions/${id}`)).body;
  await node.request({ method: 'anvil_dealERC20', params: [owner, dev.usdc_address, '0x0'] } as never);
});
await ended(reverted);
await save('transaction-reverted', reverted);
// Somebody else uses the wallet's key; found when nothing was heard for half a minute.
const replaced = await stuck(async (id) => {
  const { from_address: from, attempts } = (await client.get(`/transactions/${id}`)).body;
  await node.dropTransaction({ hash: attempts[0].hash });
  await node.impersonateAccount({ address: from });
  const foreign = { from, to: from, nonce: '0x0', gas: '0x5208' };
  await node.request({ method: 'eth_sendTransaction', params: [foreign] } as never);
});
await ended(replaced);
await save('transaction-replaced', replaced);
// Needs a stack with PURSER_GIVE_UP_SECONDS=60.
const dropped = await stuck(async (id) => {
  await eventually(
    () => client.get(`/transactions/${id}`),
    ({ body }) => body.attempts.some(({ purpose }: { purpose: string }) => purpose === 'cancel'),
    { timeoutMs: 300_000 },
  );
});
await ended(dropped);
await save('transaction-dropped', dropped);
const poor = (await client.post('/agents', { agent_name: `poor ${Date.now()}`, chain: dev.chain })).body;
await node.setBalance({ address: poor.wallet.address, value: 0n });
const unfunded = await send('1', poor.id);
await eventually(
  () => client.get(`/transactions/${unfunded}`),
  ({ body }) => body.notice !== null,
  { timeoutMs: 30_000 },
);
await node.setBalance({ address: poor.wallet.address, value: 10n ** 18n });
await ended(unfunded);
await save('transaction-funded-late', unfunded);
const withdrawn = await send('1', waiting);
await client.post(`/transactions/${withdrawn}/cancel`, {});
await ended(withdrawn);
await save('transaction-cancelled-unsent', withdrawn);
// More than may be in flight: the last one waits for a nonce.
const busy = (await client.post('/agents', { agent_name: `busy ${Date.now()}`, chain: dev.chain })).body.id as string;
await node.setAutomine(false);
const queued: string[] = [];
for (let index = 0; index < 17; index += 1) queued.push(await send('1', busy));
await signed(queued[15]!, 1);
await node.setAutomine(true);
await node.mine({ blocks: 1 });
for (const id of queued) await ended(id);
await save('transaction-queued', queued[16]!);
await connection.close();
