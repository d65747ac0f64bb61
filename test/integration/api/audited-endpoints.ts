import { decodeJwt } from 'jose';
import {
  ann,
  askAnn,
  type Body,
  comer,
  decided,
  delivery,
  endWait,
  fundedAgent,
  invite,
  type Logged,
  limit,
  make,
  makePolicy,
  makeTemplate,
  type Newcomer,
  type NotLogged,
  newcomer,
  newName,
  type Prepared,
  restingPayment,
  secretOf,
  sentPayment,
  sessionBody,
  templateBody,
  webhook,
} from './audited-world.ts';
import { createAgent, payment } from './harness.ts';
import { webhookBody } from './webhook-calls.ts';

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
  updateAgent: {
    async prepare({ account }) {
      const { id } = await createAgent(account);
      return {
        ids: [id],
        body: { agent_name: newName() },
        before: (await account.call('GET', `/api/v1/agents/${id}`)).body,
      };
    },
    entry: (answer, { before }: Prepared & { before?: Body }) => ({
      action: 'agent.updated',
      resource: ['agent', answer.id],
      agent: answer.id,
      changes: { before, after: answer },
    }),
  },
  deleteAgent: {
    async prepare({ account }) {
      const { id } = await createAgent(account);
      return { ids: [id], before: (await account.call('GET', `/api/v1/agents/${id}`)).body };
    },
    entry: (answer, { before }: Prepared & { before?: Body }) => ({
      action: 'agent.deleted',
      resource: ['agent', answer.id],
      agent: answer.id,
      changes: { before: { ...before, policies: [] }, after: null },
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
  createApiKey: {
    by: 'person',
    async prepare({ account }) {
      const { id } = await createAgent(account);
      return { body: { name: newName(), scopes: ['agents:read'], agent_id: id, expires_at: '2100-01-01T00:00:00Z' } };
    },
    secretsIn: ({ key }) => [key],
    entry: ({ key: _secret, ...shown }) => ({
      action: 'api_key.created',
      resource: ['api_key', shown.id],
      agent: shown.agent_id,
      changes: { before: null, after: shown },
    }),
  },
  deleteApiKey: {
    by: 'person',
    async prepare({ person }) {
      const { body } = await person.call('POST', '/api/v1/api-keys', { name: newName() });
      const { key: _secret, ...before } = body;
      return { ids: [body.id], before };
    },
    entry: ({ id }, { before }: Prepared & { before?: Body }) => ({
      action: 'api_key.deleted',
      resource: ['api_key', id],
      changes: { before, after: null },
    }),
  },
  updateAccount: {
    by: 'person',
    prepare: async () => ({ body: { name: newName(), default_deny: false } }),
    entry: ({ counts: _counted, frozen: _frozen, freeze: _freeze, ...after }) => ({
      action: 'account.updated',
      resource: ['account', after.id],
      changes: { before: { ...after, name: 'test' }, after },
    }),
  },
  inviteMember: {
    by: 'person',
    prepare: async () => ({ body: { email: 'Logged@example.com', role: 'admin' } }),
    entry: (answer) => ({
      action: 'member.invited',
      resource: ['member', answer.id],
      changes: { before: null, after: { ...answer, email: 'logged@example.com' } },
    }),
  },
  updateMember: {
    by: 'person',
    prepare: async (world) => ({ ids: [(await invite(world)).id], body: { role: 'admin' } }),
    entry: (answer) => ({
      action: 'member.updated',
      resource: ['member', answer.id],
      changes: { before: { ...answer, role: 'viewer' }, after: answer },
    }),
  },
  removeMember: {
    by: 'person',
    async prepare(world) {
      const before = await invite(world);
      return { ids: [before.id], before };
    },
    entry: ({ id }, { before }: Prepared & { before?: Body }) => ({
      action: 'member.removed',
      resource: ['member', id],
      changes: { before, after: null },
    }),
  },
  exchangeCode: {
    async prepare(world) {
      const { code, ...who } = await comer(world);
      return { ...who, body: { exchange_code: code } };
    },
    secretsIn: ({ access_token, refresh_token }) => [access_token, refresh_token],
    entry: ({ access_token }, { actor }: Prepared & Partial<Newcomer>) => ({
      action: 'user.signed_in',
      resource: ['session', decodeJwt<{ sid: string }>(access_token).sid],
      actor: actor!,
    }),
  },
  refreshTokens: {
    async prepare(world) {
      const { refreshToken, ...who } = await newcomer(world);
      return { ...who, body: { refresh_token: refreshToken } };
    },
    secretsIn: ({ access_token, refresh_token }) => [access_token, refresh_token],
    entry: (_answer, { sessionId, actor }: Prepared & Partial<Newcomer>) => ({
      action: 'session.refreshed',
      resource: ['session', sessionId!],
      actor: actor!,
    }),
  },
  signOut: {
    prepare: newcomer,
    endsSession: true,
    entry: ({ id }, { actor }: Prepared & Partial<Newcomer>) => ({
      action: 'user.signed_out',
      resource: ['session', id],
      actor: actor!,
    }),
  },
};
