import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { OWNER_EMAIL } from '../dev/account.ts';
import type { DevFacts } from '../dev/home.ts';
import { signInAt } from '../dev/sign-in-at.ts';
import type { DatabaseWatch } from './database-watch.ts';

const confirmWithinMs = 60_000;
/** Pause between two looks of a client that waits for its one payment; part of what is measured. */
const lookMs = 5;
/** Somebody who is paid: one of the local chain's well-known accounts. */
export const recipient = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';

/** What is sent, by token: small, so that one wallet lasts for the whole run. */
const amounts = { ETH: '0.000001', USDC: '0.01' } as const;
export type BenchToken = keyof typeof amounts;

const agentShape = z.object({ id: z.string(), wallet: z.object({ address: z.string() }) });
const transactionShape = z.object({
  id: z.string(),
  agent_id: z.string(),
  status: z.enum(['pending', 'confirmed', 'failed']),
  failure_message: z.string().nullish(),
});
const askedShape = z.object({
  data: z.array(z.object({ transaction_id: z.string(), notices: z.array(z.object({ status: z.string() })) })),
});
/** Who agrees to every payment that is asked about. */
const approver = OWNER_EMAIL;
type Transaction = z.output<typeof transactionShape>;

/** A client of the service, as an agent's program is one. */
export interface PaymentClient {
  /** @returns its id, and how long the POST took in milliseconds */
  createAgent(o: { name: string; chain: string }): Promise<{ id: string; ms: number }>;
  /** One payment while nothing else happens, with the moment of each step counted from before the POST. */
  payAlone(o: { agentId: string; token: BenchToken }): Promise<{
    /** The answer of the POST is there. */
    decisionMs: number;
    /** The database holds hash and signed bytes (announced by Postgres); they are sent in the next moment. */
    hashMs: number;
    /** GET /transactions/{id} answers `confirmed`. */
    confirmedMs: number;
  }>;
  /** A payment that waits for a person, while nothing else happens, counted from before the person's POST. */
  approveAlone(o: { agentId: string }): Promise<{
    /** The answer of the person's POST is there: it is decided. */
    answerMs: number;
    /** The database holds hash and signed bytes. */
    hashMs: number;
  }>;
  /** Has every payment of an agent wait for a person. */
  askForAll(o: { agentId: string }): Promise<void>;
  /** One payment among many: resolves when the database shows it as confirmed. */
  payAmongOthers(o: { agentId: string; token: BenchToken }): Promise<void>;
}

export function createPaymentClient({ facts, watch }: { facts: DevFacts; watch: DatabaseWatch }): PaymentClient {
  const keyHeaders = { 'X-API-Key': facts.api_key };
  async function call<T>(
    schema: z.ZodType<T>,
    path: string,
    body?: unknown,
    credential: Record<string, string> = keyHeaders,
  ): Promise<T> {
    const response = await fetch(`${facts.base_url}/api/v1${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...credential, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer: unknown = await response.json();
    if (!response.ok) throw new Error(`${path}: HTTP ${response.status} ${JSON.stringify(answer)}`);
    return schema.parse(answer);
  }

  const post = ({ agentId, token }: { agentId: string; token: BenchToken }) =>
    call(transactionShape, '/transactions', {
      agent_id: agentId,
      direction: 'outbound',
      type: 'transfer',
      to_address: recipient,
      amount: amounts[token],
      token,
      chain: facts.chain,
    });

  async function untilConfirmed(id: string): Promise<void> {
    for (const deadline = Date.now() + confirmWithinMs; Date.now() < deadline; await delay(lookMs)) {
      const transaction = await call(transactionShape, `/transactions/${id}`);
      if (transaction.status === 'confirmed') return;
      refuseFailed(transaction);
    }
    throw new Error(`Payment ${id} was not confirmed within ${confirmWithinMs / 1000} s.`);
  }

  async function untilAsked(id: string): Promise<void> {
    for (const deadline = Date.now() + confirmWithinMs; Date.now() < deadline; await delay(lookMs)) {
      const transaction = await call(transactionShape, `/transactions/${id}`);
      refuseFailed(transaction);
      // The mail goes out once the payment waits for nothing else.
      const { data } = await call(askedShape, `/approvals?agent_id=${transaction.agent_id}&status=pending`);
      if (data.some((each) => each.transaction_id === id && each.notices.every(({ status }) => status === 'sent')))
        return;
    }
    throw new Error(`Nobody was asked about payment ${id} within ${confirmWithinMs / 1000} s.`);
  }

  return {
    async askForAll({ agentId }) {
      const rules = { threshold: '0', approvers: [approver] };
      await call(z.unknown(), '/policies', { agent_id: agentId, type: 'human_approval', rules });
    },

    async approveAlone({ agentId }) {
      const { id } = await post({ agentId, token: 'USDC' });
      await untilAsked(id);
      const { access_token } = await signInAt({ baseUrl: facts.base_url, email: approver });
      const credential = { Authorization: `Bearer ${access_token}` };
      const from = performance.now();
      const stored = watch.nextAttempt({ withinMs: confirmWithinMs });
      stored.catch(() => {});
      await call(z.unknown(), `/transactions/${id}/approve`, {}, credential);
      const answerMs = performance.now() - from;
      const hashMs = (await stored) - from;
      await untilConfirmed(id);
      return { answerMs, hashMs };
    },

    async createAgent({ name, chain }) {
      const from = performance.now();
      const { id } = await call(agentShape, '/agents', { agent_name: name, chain });
      return { id, ms: performance.now() - from };
    },

    async payAlone(o) {
      const from = performance.now();
      const stored = watch.nextAttempt({ withinMs: confirmWithinMs });
      // When the POST fails, its error is the one to be told.
      stored.catch(() => {});
      const sent = await post(o);
      refuseFailed(sent);
      const decisionMs = performance.now() - from;
      const hashMs = (await stored) - from;
      await untilConfirmed(sent.id);
      return { decisionMs, hashMs, confirmedMs: performance.now() - from };
    },

    async payAmongOthers(o) {
      const sent = await post(o);
      refuseFailed(sent);
      await watch.untilConfirmed({ transactionId: sent.id, withinMs: confirmWithinMs });
    },
  };
}

function refuseFailed({ id, status, failure_message }: Transaction): void {
  if (status === 'failed') throw new Error(`Payment ${id} failed, so nothing can be measured: ${failure_message}`);
}
