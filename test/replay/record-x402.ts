// `node test/replay/record-x402.ts`: the same as record.ts for payments out of x402 sessions. Their target never looks at
// what it is paid.
import { setTimeout as delay } from 'node:timers/promises';
import { type Address, walletActions } from 'viem';
import { eventually } from '../support/client.ts';
import { argsOf, facilitator, startPaidApi, transferWithAuthorization } from '../support/paid-api.ts';
import { approver, client, connection, dev, node, postAsApprover, save, temporal } from './recorder.ts';

const target = await startPaidApi({ chain: dev.chain, asset: dev.usdc_address as Address });
async function openSession(name: string, more: { ttl_seconds?: number } = {}) {
  const { body } = await client.post('/agents', { agent_name: `${name} ${Date.now()}`, chain: dev.chain });
  const budget = { agent_id: body.id, chain: dev.chain, budget_limit: '1', ttl_seconds: 3600, ...more };
  return { agentId: body.id as string, sessionId: (await client.post('/x402/sessions', budget)).body.id as string };
}
const payTarget = async (sessionId: string, query = '') =>
  (await client.post(`/x402/sessions/${sessionId}/pay`, { target_url: `${target.url}/${query}` })).body;
const x402Reached = (sessionId: string, id: string, detail: string) =>
  eventually(
    async () => (await client.get(`/x402/sessions/${sessionId}/payments/${id}`)).body,
    (body) => body.status_detail === detail,
    { timeoutMs: 90_000 },
  );
const use = async (header: string) => {
  const call = { address: dev.usdc_address as Address, abi: transferWithAuthorization, args: argsOf(header) };
  const name = 'transferWithAuthorization' as const;
  await node.extend(walletActions).writeContract({ ...call, account: facilitator, functionName: name });
};
const over = (workflowId: string) => temporal.workflow.getHandle(workflowId).result();
/** The chain shows that time has passed only by blocks. */
async function mining(work: () => Promise<unknown>): Promise<void> {
  const timer = setInterval(() => void node.mine({ blocks: 1 }), 2_000);
  await work().finally(() => clearInterval(timer));
}
const short = await openSession('short', { ttl_seconds: 60 });
const payer = await openSession('payer');
const settled = await payTarget(payer.sessionId);
await use(settled.payment_signature);
await over(settled.ledger_id);
await save('x402-payment-settled', settled.ledger_id);
const unused = await payTarget(payer.sessionId, '?maxTimeoutSeconds=30');
const asked = await openSession('asked');
const rules = { threshold: '0', approvers: [approver] };
await client.post('/policies', { agent_id: asked.agentId, type: 'human_approval', rules });
async function answerX402(verb: 'approve' | 'reject') {
  const { ledger_id: id, approval } = await payTarget(asked.sessionId);
  await postAsApprover(`/approvals/${approval.id}/${verb}`);
  const body = await x402Reached(asked.sessionId, id, verb === 'approve' ? 'completed' : 'failed');
  if (verb === 'approve') await use(body.payment_signature);
  await over(id);
  return id as string;
}
await save('x402-payment-approved', await answerX402('approve'));
await save('x402-payment-rejected', await answerX402('reject'));
const leftWaiting = await payTarget(asked.sessionId);
await fetch(`${dev.base_url}/api/v1/x402/sessions/${asked.sessionId}`, {
  method: 'DELETE',
  headers: { 'X-API-Key': dev.api_key },
});
await over(asked.sessionId);
await save('x402-session-deleted', asked.sessionId);
await over(leftWaiting.ledger_id);
await save('x402-payment-session-ended', leftWaiting.ledger_id);
await mining(() => over(unused.ledger_id));
await save('x402-payment-expired', unused.ledger_id);
await over(short.sessionId);
await save('x402-session-expired', short.sessionId);
// With the process ids of two signers, which rest for longer than a signature would make sense: what is stamped is never
// handed out, and another one follows it.
const signers = process.argv.slice(2).map(Number);
if (signers.length === 2) {
  const patient = await openSession('patient');
  for (const pid of signers) process.kill(pid, 'SIGSTOP');
  const { ledger_id } = await payTarget(patient.sessionId, '?maxTimeoutSeconds=30');
  await delay(18_000);
  for (const pid of signers) process.kill(pid, 'SIGCONT');
  await mining(() => over(ledger_id));
  await save('x402-payment-signed-later', ledger_id);
}
await target.stop();
await connection.close();
