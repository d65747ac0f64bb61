import type { Address } from 'viem';
import { hashExchangeCode, newExchangeCode } from '../../../api/tokens/exchange-code.ts';
import { storeAttempt } from '../../../shared/db/attempts.ts';
import { insertEvent } from '../../../shared/db/events.ts';
import { insertExchangeCode } from '../../../shared/db/exchange-codes.ts';
import { insertSlot } from '../../../shared/db/slots.ts';
import { newId } from '../../../shared/ids.ts';
import { until } from '../../support/chain-world.ts';
import { insertTestPayment, signedBytes, type TestAgent } from '../../support/rows.ts';
import { callWith, createAgent, recipient, type TestAccount, type TestPerson } from './harness.ts';
import { askPeople } from './questions.ts';
import { startRefreshing } from './refresh-calls.ts';
import { createTestWebhook, newSecret } from './webhook-calls.ts';
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
export type Body = any;

/** A request that is about to be made. */
export interface Prepared {
  /** What the path names, in its order. */
  readonly ids?: readonly string[];
  readonly body?: unknown;
  /** Who asks, where that is somebody else than the endpoint says. */
  readonly call?: TestPerson['call'];
}

interface Entry {
  readonly action: string;
  readonly resource: readonly [type: string, id: string];
  readonly agent?: string;
  /** As far as it matters; undefined where nothing is changed. */
  readonly changes?: { readonly before: unknown; readonly after: unknown };
  /** By default the account's key, or the person. */
  readonly actor?: { readonly actor_type: string; readonly actor_id: string; readonly actor_name: string | null };
}

interface Prepare {
  readonly prepare: (world: World) => Promise<Prepared>;
}

/** An endpoint that changes something. */
export interface Logged extends Prepare {
  readonly by?: 'person';
  /** What of its answer is secret: that is not kept, and a repeat is a conflict. */
  readonly secretsIn?: (answer: Body) => readonly string[];
  /** Whether it takes from whoever asks what they need to ask: a repeat is 401. */
  readonly endsSession?: boolean;
  readonly entry: (answer: Body, prepared: Prepared) => Entry;
}

/** An endpoint that has a method as if it did. */
export interface NotLogged extends Prepare {
  readonly by?: never;
  /** Why it is not logged. */
  readonly writesNone: string;
}

export const limit = { type: 'spending_limit', rules: { daily_limit: '100' } };
let names = 0;
export const newName = () => {
  names += 1;
  return `logged ${names}`;
};

export async function make({ account }: World, path: string, body: unknown): Promise<Body> {
  const answer = await account.call('POST', `/api/v1${path}`, body);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  return answer.body;
}
export const makePolicy = async (world: World) =>
  make(world, '/policies', { agent_id: (await createAgent(world.account)).id, ...limit });
export const templateBody = () => ({ name: newName(), policies: [limit] });
export const makeTemplate = (world: World) => make(world, '/policy-templates', templateBody());

export async function fundedAgent({ account, local }: World) {
  const agent = await createAgent(account);
  await local.fund(agent.address as Address, { eth: '1', usdc: '20' });
  return agent;
}

export const sessionBody = (agentId: string) => ({
  ...{ agent_id: agentId, budget_limit: '5', chain: 'eip155:31337', ttl_seconds: 600 },
});

/** A payment that nobody works on. */
export async function restingPayment(world: World): Promise<{ id: string; agent: TestAgent }> {
  const { pool } = world.api;
  const { id: agentId } = await createAgent(world.account);
  const { rows } = await pool.query<{ id: string }>('select id from wallets where agent_id = $1', [agentId]);
  const agent = { accountId: world.account.id, agentId, walletId: rows[0]!.id };
  return { id: await insertTestPayment(pool, agent), agent };
}

export async function sentPayment(world: World): Promise<string> {
  const { id, agent } = await restingPayment(world);
  const fees = { gas: '21000', maxFeePerGasWei: '2', maxPriorityFeePerGasWei: '1' };
  const transaction = { chainId: 31337, nonce: 0, to: recipient, valueWei: '1', data: '0x', ...fees } as const;
  await insertSlot(world.api.pool, {
    ...{ walletId: agent.walletId, chain: 'eip155:31337', nonce: 0, transactionId: id },
    payload: { kind: 'evm-transaction', transaction },
  });
  const attempt = { hash: `0x${id}`, raw: signedBytes, purpose: 'payment', version: 1, offer: null } as const;
  await storeAttempt(world.api.pool, { transactionId: id, ...attempt });
  return id;
}

export const askAnn = async ({ api, account }: World) => askPeople(api, account, [{ approvers: [ann] }]);
export const decided = (decision: 'approved' | 'rejected') => (answer: Body) => ({
  action: `approval.${decision}`,
  resource: ['approval', answer.id] as const,
  agent: answer.agent_id,
  changes: { before: { status: 'pending', decisions: [] }, after: answer },
  actor: { actor_type: 'approver', actor_id: ann, actor_name: null },
});

export async function invite({ person }: World, role = 'viewer'): Promise<Body> {
  const email = `${newName().replace(' ', '-')}@example.com`;
  const { status, body } = await person.call('POST', '/api/v1/account/members', { email, role });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
}

export async function webhook(world: World, more: Record<string, unknown> = {}): Promise<Body> {
  return createTestWebhook(world.account, { secret: secretOf(world), ...more });
}
export function secretOf({ secrets }: World): string {
  const secret = newSecret();
  secrets.push(secret, secret.slice('whsec_'.length));
  return secret;
}

/** An event on its way to a webhook. */
export async function delivery(world: World): Promise<string[]> {
  const { pool } = world.api;
  const { id } = await webhook(world);
  const event = { type: 'payment.completed', resourceType: 'transaction', resourceId: newId('tx') } as const;
  await insertEvent(pool, { accountId: world.account.id, agentId: null, data: {}, ...event });
  const { rows } = await pool.query<{ id: string }>('select id from webhook_deliveries where webhook_id = $1', [id]);
  return [id, rows[0]!.id];
}

/** Nobody delivers here: whoever waits for it is let go as soon as there is something to wait for. */
export function endWait({ api, temporal }: World, { webhookId }: { webhookId: string }): void {
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

/** Somebody whose session is only for this request, and who acts in it. */
export async function newcomer(world: World) {
  const person = await startRefreshing(world.api, world.account);
  world.secrets.push(person.token, person.refreshToken);
  const { call, refreshToken, userId, sessionId, email } = person;
  return { call, refreshToken, sessionId, actor: { actor_type: 'user', actor_id: userId, actor_name: email } };
}
export type Newcomer = Awaited<ReturnType<typeof newcomer>>;

/** Somebody who comes back from the identity provider with a code. */
export async function comer(world: World) {
  const email = `${newName().replace(' ', '-')}@example.com`;
  const { userId } = await world.account.person(email, { role: 'viewer' });
  const code = newExchangeCode();
  world.secrets.push(code);
  const of = { hash: hashExchangeCode(code), accountId: world.account.id, userId, lifetimeSeconds: 60 };
  await insertExchangeCode(world.api.pool, of);
  return {
    call: callWith(world.api.url, {}),
    code,
    actor: { actor_type: 'user', actor_id: userId, actor_name: email },
  };
}
