import type { Address } from 'viem';
import { storeAttempt } from '../../../shared/db/attempts.ts';
import { insertEvent } from '../../../shared/db/events.ts';
import { insertSlot } from '../../../shared/db/slots.ts';
import { newId } from '../../../shared/ids.ts';
import { until } from '../../support/chain-world.ts';
import { insertTestPayment, signedBytes, type TestAgent } from '../../support/rows.ts';
import { createAgent, payment, recipient, type TestAccount, type TestPerson } from './harness.ts';
import { askPeople } from './questions.ts';
import { createTestWebhook, newSecret, webhookBody } from './webhook-calls.ts';
import type { ApiWithChain } from './with-chain.ts';

/** Everything that the endpoints need; nobody signs, and nobody delivers. */
export interface World extends ApiWithChain {
  readonly account: TestAccount;
  /** The account's only key. */
  readonly keyId: string;
  readonly person: TestPerson;
  /** Wants at each path as much as the path says. */
  readonly shopUrl: string;
  /** What may be in no log. */
  readonly secrets: string[];
}

export const ann = 'ann@example.com';

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at freely, member by member, by assertions
type Body = any;

/** A request that is about to be made. */
interface Prepared {
  /** What the path names, in its order. */
  readonly ids?: readonly string[];
  readonly body?: unknown;
}

interface Entry {
  readonly action: string;
  readonly resource: readonly [type: string, id: string];
  readonly agent?: string;
  /** As far as it matters; undefined where nothing is changed. */
  readonly changes?: { readonly before: unknown; readonly after: unknown };
  /** The account's key by default. */
  readonly actor?: { readonly actor_type: string; readonly actor_id: string; readonly actor_name: null };
}

interface Prepare {
  readonly prepare: (world: World) => Promise<Prepared>;
}

/** An endpoint that changes something. */
interface Logged extends Prepare {
  readonly by?: 'person';
  readonly entry: (answer: Body, prepared: Prepared) => Entry;
}

/** An endpoint that has a method as if it did. */
interface NotLogged extends Prepare {
  readonly by?: never;
  /** Why it is not logged. */
  readonly writesNone: string;
}

const limit = { type: 'spending_limit', rules: { daily_limit: '100' } };
let names = 0;
const newName = () => {
  names += 1;
  return `logged ${names}`;
};

async function make({ account }: World, path: string, body: unknown): Promise<Body> {
  const answer = await account.call('POST', `/api/v1${path}`, body);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  return answer.body;
}
const makePolicy = async (world: World) =>
  make(world, '/policies', { agent_id: (await createAgent(world.account)).id, ...limit });
const templateBody = () => ({ name: newName(), policies: [limit] });
const makeTemplate = (world: World) => make(world, '/policy-templates', templateBody());

async function fundedAgent({ account, local }: World) {
  const agent = await createAgent(account);
  await local.fund(agent.address as Address, { eth: '1', usdc: '20' });
  return agent;
}

const sessionBody = (agentId: string) => ({
  ...{ agent_id: agentId, budget_limit: '5', chain: 'eip155:31337', ttl_seconds: 600 },
});

/** A payment that nobody works on. */
async function restingPayment(world: World): Promise<{ id: string; agent: TestAgent }> {
  const { pool } = world.api;
  const { id: agentId } = await createAgent(world.account);
  const { rows } = await pool.query<{ id: string }>('select id from wallets where agent_id = $1', [agentId]);
  const agent = { accountId: world.account.id, agentId, walletId: rows[0]!.id };
  return { id: await insertTestPayment(pool, agent), agent };
}

async function sentPayment(world: World): Promise<string> {
  const { id, agent } = await restingPayment(world);
  const fees = { gas: '21000', maxFeePerGasWei: '2', maxPriorityFeePerGasWei: '1' };
  const transaction = { chainId: 31337, nonce: 0, to: recipient, valueWei: '1', data: '0x', ...fees } as const;
  await insertSlot(world.api.pool, {
    ...{ walletId: agent.walletId, chain: 'eip155:31337', nonce: 0, transactionId: id },
    payload: { kind: 'evm-transaction', transaction },
  });
  const attempt = { hash: `0x${id}`, raw: signedBytes, purpose: 'payment', version: 1 } as const;
  await storeAttempt(world.api.pool, { transactionId: id, ...attempt });
  return id;
}

const askAnn = async ({ api, account }: World) => askPeople(api, account, [{ approvers: [ann] }]);
const decided = (decision: 'approved' | 'rejected') => (answer: Body) => ({
  action: `approval.${decision}`,
  resource: ['approval', answer.id] as const,
  agent: answer.agent_id,
  changes: { before: { status: 'pending', decisions: [] }, after: answer },
  actor: { actor_type: 'approver', actor_id: ann, actor_name: null },
});

async function webhook(world: World, more: Record<string, unknown> = {}): Promise<Body> {
  return createTestWebhook(world.account, { secret: secretOf(world), ...more });
}
function secretOf({ secrets }: World): string {
  const secret = newSecret();
  secrets.push(secret, secret.slice('whsec_'.length));
  return secret;
}

/** An event on its way to a webhook. */
async function delivery(world: World): Promise<string[]> {
  const { pool } = world.api;
  const { id } = await webhook(world);
  const event = { type: 'payment.completed', resourceType: 'transaction', resourceId: newId('tx') } as const;
  await insertEvent(pool, { accountId: world.account.id, agentId: null, data: {}, ...event });
  const { rows } = await pool.query<{ id: string }>('select id from webhook_deliveries where webhook_id = $1', [id]);
  return [id, rows[0]!.id];
}

/** Nobody delivers here: whoever waits for it is let go as soon as there is something to wait for. */
function endWait({ api, temporal }: World, { webhookId }: { webhookId: string }): void {
  const end = async () => {
    const { rows } = await api.pool.query<{ id: string }>('select id from webhook_deliveries where webhook_id = $1', [
      webhookId,
    ]);
    if (!rows[0]) return false;
    await temporal.workflow.getHandle(rows[0].id).terminate();
    return true;
  };
  void until(() => end().catch(() => false), Boolean);
}

/** By operation id: how each endpoint with a method that changes something is logged, or why it is not. */
export const auditedEndpoints: Readonly<Record<string, Logged | NotLogged>> = {
  createAgent: {
    prepare: async () => ({ body: { agent_name: newName(), chain: 'eip155:31337' } }),
    entry: (answer) => ({
      action: 'agent.created',
      resource: ['agent', answer.id],
      agent: answer.id,
      changes: { before: null, after: answer },
    }),
  },
  setAgentStatus: {
    prepare: async ({ account }) => ({ ids: [(await createAgent(account)).id], body: { status: 'inactive' } }),
    entry: (answer) => ({
      action: 'agent.status_changed',
      resource: ['agent', answer.id],
      agent: answer.id,
      changes: { before: { ...answer, status: 'active' }, after: answer },
    }),
  },
  createPolicy: {
    prepare: async ({ account }) => ({ body: { agent_id: (await createAgent(account)).id, ...limit } }),
    entry: (answer) => ({
      action: 'policy.created',
      resource: ['policy', answer.id],
      agent: answer.agent_id,
      changes: { before: null, after: answer },
    }),
  },
  replacePolicyRules: {
    prepare: async (world) => ({ ids: [(await makePolicy(world)).id], body: { rules: { daily_limit: '7' } } }),
    entry: (answer) => ({
      action: 'policy.updated',
      resource: ['policy', answer.id],
      agent: answer.agent_id,
      changes: { before: { id: answer.id, ...limit }, after: answer },
    }),
  },
  deletePolicy: {
    async prepare(world) {
      const before = await makePolicy(world);
      return { ids: [before.id], before };
    },
    entry: (answer, { before }: Prepared & { before?: Body }) => ({
      action: 'policy.deleted',
      resource: ['policy', answer.id],
      agent: before.agent_id,
      changes: { before, after: null },
    }),
  },
  createPolicyTemplate: {
    prepare: async () => ({ body: templateBody() }),
    entry: (answer) => ({
      action: 'policy_template.created',
      resource: ['policy_template', answer.id],
      changes: { before: null, after: answer },
    }),
  },
  replacePolicyTemplate: {
    prepare: async (world) => ({ ids: [(await makeTemplate(world)).id], body: templateBody() }),
    entry: (answer) => ({
      action: 'policy_template.updated',
      resource: ['policy_template', answer.id],
      changes: { before: { id: answer.id, policies: [limit] }, after: answer },
    }),
  },
  deletePolicyTemplate: {
    prepare: async (world) => ({ ids: [(await makeTemplate(world)).id] }),
    entry: (answer) => ({
      action: 'policy_template.deleted',
      resource: ['policy_template', answer.id],
      changes: { before: { id: answer.id, policies: [limit] }, after: null },
    }),
  },
  applyPolicyTemplate: {
    async prepare(world) {
      const policy = await makePolicy(world);
      const { id } = await makeTemplate(world);
      return { ids: [id], body: { agent_id: policy.agent_id, mode: 'replace' }, policy };
    },
    entry: (answer, { ids, policy }: Prepared & { policy?: Body }) => ({
      action: 'policy_template.applied',
      resource: ['policy_template', ids![0]!],
      agent: policy.agent_id,
      changes: { before: [policy], after: answer.data },
    }),
  },
  createTransaction: {
    prepare: async (world) => ({ body: payment((await fundedAgent(world)).id) }),
    entry: ({ id, agent_id }) => ({
      action: 'transaction.created',
      resource: ['transaction', id],
      agent: agent_id,
      changes: { before: null, after: { id, agent_id, amount: '12.5', status_detail: 'created', attempts: [] } },
    }),
  },
  simulateTransaction: {
    prepare: async (world) => ({ body: payment((await fundedAgent(world)).id) }),
    writesNone: 'It says what would be, and stores nothing.',
  },
  cancelTransaction: {
    prepare: async (world) => ({ ids: [(await restingPayment(world)).id] }),
    entry: (answer) => ({
      action: 'transaction.cancel_requested',
      resource: ['transaction', answer.id],
      agent: answer.agent_id,
      changes: { before: { id: answer.id, status: 'pending' }, after: { ...answer, failure_code: 'cancelled' } },
    }),
  },
  speedUpTransaction: {
    prepare: async (world) => ({ ids: [await sentPayment(world)] }),
    entry: (answer) => ({
      action: 'transaction.speed_up_requested',
      resource: ['transaction', answer.id],
      agent: answer.agent_id,
      changes: { before: { id: answer.id, status_detail: 'broadcast' }, after: answer },
    }),
  },
  approveTransaction: {
    by: 'person',
    prepare: async (world) => ({ ids: [(await askAnn(world)).transactionId] }),
    entry: decided('approved'),
  },
  rejectTransaction: {
    by: 'person',
    prepare: async (world) => ({ ids: [(await askAnn(world)).transactionId], body: { note: 'No.' } }),
    entry: decided('rejected'),
  },
  approveApproval: {
    by: 'person',
    prepare: async (world) => ({ ids: [(await askAnn(world)).approvalId], body: { note: 'Yes.' } }),
    entry: decided('approved'),
  },
  rejectApproval: {
    by: 'person',
    prepare: async (world) => ({ ids: [(await askAnn(world)).approvalId] }),
    entry: decided('rejected'),
  },
  createX402Session: {
    prepare: async (world) => ({ body: sessionBody((await fundedAgent(world)).id) }),
    entry: (answer) => ({
      action: 'x402_session.created',
      resource: ['x402_session', answer.id],
      agent: answer.agent_id,
      changes: { before: null, after: answer },
    }),
  },
  deleteX402Session: {
    async prepare(world) {
      const session = await make(world, '/x402/sessions', sessionBody((await fundedAgent(world)).id));
      return { ids: [session.id], agentId: session.agent_id };
    },
    entry: ({ id }, { agentId }: Prepared & { agentId?: string }) => ({
      action: 'x402_session.deleted',
      resource: ['x402_session', id],
      agent: agentId!,
      changes: { before: { id, status: 'active' }, after: { id, status: 'deleted' } },
    }),
  },
  payX402: {
    async prepare(world) {
      const { id: agentId } = await fundedAgent(world);
      // A person is asked, so that nobody waits for signers.
      const rules = { threshold: '0', approvers: [ann] };
      await make(world, '/policies', { agent_id: agentId, type: 'human_approval', rules });
      const { id } = await make(world, '/x402/sessions', sessionBody(agentId));
      return { ids: [id], body: { target_url: `${world.shopUrl}/10000` }, agentId };
    },
    entry: ({ ledger_id }, { agentId }: Prepared & { agentId?: string }) => ({
      action: 'x402_payment.created',
      resource: ['x402_payment', ledger_id],
      agent: agentId!,
      changes: { before: null, after: { ledger_id, amount: '0.01', status: 'pending', payment_signature: null } },
    }),
  },
  checkX402Target: {
    prepare: async ({ shopUrl }) => ({ body: { url: `${shopUrl}/10000` } }),
    writesNone: 'It asks what a target wants, pays nothing and stores nothing.',
  },
  createWebhook: {
    prepare: async (world) => ({ body: webhookBody({ secret: secretOf(world) }) }),
    entry: (answer) => ({
      action: 'webhook.created',
      resource: ['webhook', answer.id],
      changes: { before: null, after: answer },
    }),
  },
  changeWebhook: {
    prepare: async (world) => ({ ids: [(await webhook(world)).id], body: { events: ['payment.failed'] } }),
    entry: (answer) => ({
      action: 'webhook.updated',
      resource: ['webhook', answer.id],
      changes: { before: { id: answer.id, url: answer.url }, after: answer },
    }),
  },
  deleteWebhook: {
    async prepare(world) {
      const before = await webhook(world);
      return { ids: [before.id], before };
    },
    entry: (answer, { before }: Prepared & { before?: Body }) => ({
      action: 'webhook.deleted',
      resource: ['webhook', answer.id],
      changes: { before, after: null },
    }),
  },
  rotateWebhookSecret: {
    prepare: async (world) => ({ ids: [(await webhook(world)).id], body: { secret: secretOf(world) } }),
    entry: (answer) => ({
      action: 'webhook.secret_rotated',
      resource: ['webhook', answer.id],
      changes: { before: { id: answer.id }, after: answer },
    }),
  },
  testWebhook: {
    async prepare(world) {
      const { id } = await webhook(world, { events: ['webhook.disabled'] });
      endWait(world, { webhookId: id });
      return { ids: [id] };
    },
    entry: (answer) => ({ action: 'webhook.tested', resource: ['webhook', answer.webhook_id] }),
  },
  redeliverWebhookDelivery: {
    prepare: async (world) => ({ ids: await delivery(world) }),
    entry: (answer) => ({ action: 'webhook_delivery.redelivered', resource: ['webhook_delivery', answer.id] }),
  },
};
