import { setTimeout as delay } from 'node:timers/promises';
import { x402Client, x402HTTPClient } from '@x402/core/client';
import { decodePaymentRequiredHeader } from '@x402/core/http';
import { ExactEvmScheme } from '@x402/evm/exact/client';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { z } from 'zod';
import type { DevFacts } from '../dev/home.ts';
import { prepareKeys, signerEndpoints } from '../dev/signers.ts';
import { type MeasureContext, names } from './measure.ts';
import { inParallel, type Throughput } from './parallel.ts';
import { interleave, type Summary, summarise } from './samples.ts';
import { createSignatureBench } from './signatures.ts';
import type { BenchStack } from './with-stack.ts';
import { createWorkflowFloor } from './workflow-floor.ts';
import { createPaidTarget, type PaidTarget } from './x402-target.ts';

/** Payments under way at once, and sessions that share them. */
const width = 20;
const budget = '100';
const sessionSeconds = 3_600;

/** Names of the durations that ratios are made of. */
export const x402Names = {
  pay: 'x402: POST …/pay → signature',
  payOnly: 'x402: POST …/pay → signature, less the probe',
  official: 'floor, official client, local key: 402 → header',
  officialProbe: 'floor, official client, local key: probe → header',
} as const;
const x402Runs = {
  oneSession: 'x402 payments, 1 session, 2 workers',
  manySessions: `x402 payments, ${width} agents, 2 workers`,
} as const;

export interface MeasuredX402 {
  readonly durations: ReadonlyMap<string, Summary>;
  readonly throughput: ReadonlyMap<string, Throughput>;
}

/** Measures payments out of x402 sessions, of a target that answers at once, beside their floors. */
export async function measureX402(
  { facts, home, ports }: BenchStack,
  { plan, progress, signal }: MeasureContext,
): Promise<MeasuredX402> {
  const target = await createPaidTarget({ facts });
  const workflows = await createWorkflowFloor({ facts });
  const endpoints = signerEndpoints(await prepareKeys(home.file), ports.signers);
  const signatures = await createSignatureBench({ facts, home, endpoints });
  try {
    const payer = createPayer({ facts, target });
    const sessions = await progress.step('agents and sessions', () => openSessions(payer));
    const official = createOfficial({ facts, target });
    const alone = await progress.step('x402, one at a time, floors in turn', () =>
      interleave(
        [
          async () => {
            const ms = await payer.payMs(sessions[0]!);
            return { [x402Names.pay]: ms, [x402Names.payOnly]: ms - target.lastMs() };
          },
          async () => official(),
          async () => ({ [names.workflow1]: await workflows.oneActivityMs() }),
          async () => ({ [names.signature]: await signatures.signMs() }),
        ],
        { warmUp: plan.warmUpRounds, rounds: plan.rounds, limitMs: plan.limitMs, signal },
      ),
    );
    const throughput = new Map<string, Throughput>();
    for (const [name, count] of [
      [x402Runs.oneSession, 1],
      [x402Runs.manySessions, width],
    ] as const) {
      const run = (total: number) =>
        inParallel(({ lane }) => payer.payMs(sessions[lane % count]!), { width, total, limitMs: plan.limitMs, signal });
      await progress.step(name, async () => {
        await run(width);
        throughput.set(name, await run(plan.payments));
      });
    }
    return { durations: new Map([...alone].map(([name, ms]) => [name, summarise(ms)])), throughput };
  } finally {
    signatures.close();
    await workflows.close();
    await target.close();
  }
}

const idShape = z.object({ id: z.string() });
const paidShape = z.object({
  ...{ ledger_id: z.string(), status: z.string(), payment_signature: z.string().nullable() },
  failure_message: z.string().nullable(),
});
/**
 * Pause between two looks of a client whose payment was not signed yet when it was answered. Twenty that look without
 * pause take both cores for themselves.
 */
const lookMs = 250;
const signWithinMs = 60_000;

/** A client of the service, as an agent's program is one. */
function createPayer({ facts, target }: { facts: DevFacts; target: PaidTarget }) {
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
  return {
    async openSession({ name }: { name: string }): Promise<string> {
      const agent = await call(idShape, '/agents', { agent_name: name, chain: facts.chain });
      const wanted = { agent_id: agent.id, chain: facts.chain, budget_limit: budget, ttl_seconds: sessionSeconds };
      return (await call(idShape, '/x402/sessions', wanted)).id;
    },
    async payMs(sessionId: string): Promise<number> {
      const from = performance.now();
      let paid = await call(paidShape, `/x402/sessions/${sessionId}/pay`, { target_url: target.url });
      while (paid.payment_signature === null) {
        if (paid.status === 'failed' || performance.now() - from > signWithinMs)
          throw new Error(`A payment is ${paid.status}, so nothing can be measured: ${paid.failure_message}`);
        await delay(lookMs);
        paid = await call(paidShape, `/x402/sessions/${sessionId}/payments/${paid.ledger_id}`);
      }
      return performance.now() - from;
    },
  };
}

async function openSessions(payer: ReturnType<typeof createPayer>): Promise<string[]> {
  const sessions: string[] = [];
  for (let index = 0; index < width; index += 1)
    sessions.push(await payer.openSession({ name: `bench x402 ${index}` }));
  return sessions;
}

/** What the official client takes for the same header, with a key of its own. */
function createOfficial({ facts, target }: { facts: DevFacts; target: PaidTarget }) {
  const network = facts.chain as `${string}:${string}`;
  const payments = new x402Client()
    .register(network, new ExactEvmScheme(privateKeyToAccount(generatePrivateKey())))
    .setSpendControls({ allowedAssets: [{ network, asset: facts.usdc_address, maxAmountPerPayment: '100000' }] });
  const encoder = new x402HTTPClient(payments);
  return async () => {
    const from = performance.now();
    const { headers } = await fetch(target.url);
    const asked = performance.now();
    const payload = await payments.createPaymentPayload(decodePaymentRequiredHeader(headers.get('PAYMENT-REQUIRED')!));
    encoder.encodePaymentSignatureHeader(payload);
    const done = performance.now();
    return { [x402Names.official]: done - asked, [x402Names.officialProbe]: done - from };
  };
}
