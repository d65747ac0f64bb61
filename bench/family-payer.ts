import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { DevFacts } from '../dev/home.ts';
import type { DatabaseWatch } from './database-watch.ts';

const endWithinMs = 120_000;
const lookMs = 20;

const agentShape = z.object({ id: z.string(), wallet: z.object({ address: z.string() }) });
const transactionShape = z.object({
  id: z.string(),
  status: z.enum(['pending', 'confirmed', 'failed']),
  fee: z.string().nullable(),
  failure_message: z.string().nullish(),
});

/** What is paid, on which chain, and to whom. */
export interface FamilyPayment {
  /** CAIP-2 id. */
  readonly chain: string;
  readonly token: string;
  readonly amount: string;
  readonly to: string;
}

/** A client of the service, as an agent's program is one, on any chain. */
export interface FamilyPayer {
  createAgent(chain: string): Promise<{ id: string; address: string }>;
  /** One payment while nothing else happens; resolves when it is confirmed. */
  pay(
    agentId: string,
    payment: FamilyPayment,
  ): Promise<{
    /** From before the POST until the database holds hash and signed bytes; they are sent in the next moment. */
    hashMs: number;
    /** What it cost, in the chain's own coin. */
    fee: string;
  }>;
}

export function createFamilyPayer({ facts, watch }: { facts: DevFacts; watch: DatabaseWatch }): FamilyPayer {
  async function call<T>(schema: z.ZodType<T>, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${facts.base_url}/api/v1${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { 'X-API-Key': facts.api_key, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer: unknown = await response.json();
    if (!response.ok) throw new Error(`${path}: HTTP ${response.status} ${JSON.stringify(answer)}`);
    return schema.parse(answer);
  }

  async function feeOf(id: string): Promise<string> {
    for (const deadline = Date.now() + endWithinMs; Date.now() < deadline; await delay(lookMs)) {
      const { status, fee, failure_message } = await call(transactionShape, `/transactions/${id}`);
      if (status === 'failed') throw new Error(`Payment ${id} failed: ${failure_message}`);
      if (status === 'confirmed') return fee!;
    }
    throw new Error(`Payment ${id} was not confirmed within ${endWithinMs / 1000} s.`);
  }

  return {
    async createAgent(chain) {
      const { id, wallet } = await call(agentShape, '/agents', { agent_name: `bench ${chain}`, chain });
      return { id, address: wallet.address };
    },

    async pay(agentId, { chain, token, amount, to }) {
      const from = performance.now();
      const stored = watch.nextAttempt({ withinMs: endWithinMs });
      // When the POST fails, its error is the one to be told.
      stored.catch(() => {});
      const sent = await call(transactionShape, '/transactions', {
        ...{ agent_id: agentId, direction: 'outbound', type: 'transfer' },
        ...{ to_address: to, amount, token, chain },
      });
      const hashMs = (await stored) - from;
      return { hashMs, fee: await feeOf(sent.id) };
    },
  };
}
