import { setTimeout as delay } from 'node:timers/promises';
import type { Progress } from '../dev/progress.ts';
import { prepareKeys, signerEndpoints } from '../dev/signers.ts';
import type { EngineChoice } from '../signer/engine/load.ts';
import { createDatabaseWatch } from './database-watch.ts';
import { createEngineFloor } from './engine-floor.ts';
import { inParallel, type Throughput } from './parallel.ts';
import { type BenchToken, createPaymentClient, type PaymentClient } from './payments.ts';
import { type Memory, readCpuMs, readMemory } from './processes.ts';
import { createRawWallets, type RawWallet } from './raw-viem.ts';
import { interleave, type Summary, summarise } from './samples.ts';
import { createSignatureBench, type SignatureBench } from './signatures.ts';
import { type BenchStack, unfundedChain } from './with-stack.ts';
import { createWorkflowFloor } from './workflow-floor.ts';

/** Payments under way at once, and wallets that share them. */
const width = 50;
/** After this the processes count as idle. */
const settleMs = 2_000;

/** How much is measured. */
export interface Plan {
  /** Rounds with one payment at a time. */
  readonly rounds: number;
  readonly warmUpRounds: number;
  /** Agents that are made on a chain without a faucet. */
  readonly agents: number;
  /** Payments of one run with many at a time. */
  readonly payments: number;
  readonly keys: number;
  /** Longest time of each part. */
  readonly limitMs: number;
}

export const fullPlan: Plan = {
  rounds: 100,
  warmUpRounds: 5,
  agents: 40,
  payments: 500,
  keys: 5,
  limitMs: 120_000,
};
export const quickPlan: Plan = { rounds: 10, warmUpRounds: 2, agents: 4, payments: 100, keys: 1, limitMs: 60_000 };

/** Names of the durations that ratios are made of. */
export const names = {
  decision: (token: BenchToken) => `${token}: POST → decision`,
  hash: (token: BenchToken) => `${token}: POST → hash`,
  confirmed: (token: BenchToken) => `${token}: POST → confirmed`,
  answered: 'USDC: POST …/approve → decided',
  approvedHash: 'USDC: POST …/approve → hash',
  rawHash: (token: BenchToken) => `floor, raw viem ${token}: → hash`,
  rawReceipt: (token: BenchToken) => `floor, raw viem ${token}: → receipt`,
  workflow1: 'floor, workflow with 1 activity',
  workflow3: 'floor, workflow with 3 activities',
  signature: 'signature, through the signers',
  engine: 'floor, signature in one process',
  keygen: 'key generation, through the signers',
  fundedAgent: 'POST /agents, waiting for the faucet',
  agent: 'POST /agents',
} as const;
export const runs = {
  oneWallet: 'payments, 1 wallet, 2 workers',
  manyWallets: `payments, ${width} wallets, 2 workers`,
  rawOneWallet: 'floor, raw viem, 1 wallet',
  rawManyWallets: `floor, raw viem, ${width} wallets`,
} as const;

/** Everything that was measured. */
export interface Measured {
  readonly engineBuild: string;
  readonly durations: ReadonlyMap<string, Summary>;
  readonly throughput: ReadonlyMap<string, Throughput>;
  /** CPU time of each part for one payment, over both runs of payments in parallel, in milliseconds. */
  readonly cpuMsPerPayment: ReadonlyMap<string, number>;
  readonly memory: ReadonlyMap<string, Memory>;
}

export interface MeasureContext {
  readonly plan: Plan;
  readonly engine: EngineChoice;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

/** Measures a running stack, part after part. Nothing else should use the machine meanwhile. */
export async function measure({ facts, home, ports }: BenchStack, context: MeasureContext): Promise<Measured> {
  const { plan, progress, signal } = context;
  const endpoints = signerEndpoints(await prepareKeys(home.file), ports.signers);
  const watch = await createDatabaseWatch({ databaseUrl: facts.database_url });
  const workflows = await createWorkflowFloor({ facts });
  const signatures = await createSignatureBench({ facts, home, endpoints });
  try {
    const payer = createPaymentClient({ facts, watch });
    const floor = await progress.step('key of the signature floor', () => createEngineFloor(context));
    const raw = await progress.step('wallets of the viem floor', () => createRawWallets({ facts }, { count: width }));
    const made = await progress.step('agents', () => makeAgents(payer, { plan, chain: facts.chain }));
    const alone = await progress.step('one at a time, floors in turn', () =>
      interleave(
        [
          payCase(payer, made.agentIds[0]!, 'ETH'),
          rawCase(raw[0]!, 'ETH'),
          payCase(payer, made.agentIds[0]!, 'USDC'),
          rawCase(raw[0]!, 'USDC'),
          approveCase(payer, made.askedAgentId),
          async () => ({ [names.workflow1]: await workflows.oneActivityMs() }),
          async () => ({ [names.workflow3]: await workflows.threeActivitiesMs() }),
          async () => ({ [names.signature]: await signatures.signMs() }),
          async () => ({ [names.engine]: await floor.signMs() }),
        ],
        { warmUp: plan.warmUpRounds, rounds: plan.rounds, limitMs: plan.limitMs, signal },
      ),
    );
    const parallel = await measureParallel({ payer, raw, agentIds: made.agentIds }, context);
    const keys = await progress.step('key generation', () => makeKeys(signatures, context));
    await delay(settleMs, undefined, { signal });
    const durations = new Map([...alone, ...keys, ...made.durations].map(([name, ms]) => [name, summarise(ms)]));
    return { engineBuild: floor.build, durations, ...parallel, memory: readMemory() };
  } finally {
    signatures.close();
    await watch.close();
    await workflows.close();
  }
}

function payCase(payer: PaymentClient, agentId: string, token: BenchToken) {
  return async () => {
    const { decisionMs, hashMs, confirmedMs } = await payer.payAlone({ agentId, token });
    return {
      [names.decision(token)]: decisionMs,
      [names.hash(token)]: hashMs,
      [names.confirmed(token)]: confirmedMs,
    };
  };
}

function approveCase(payer: PaymentClient, agentId: string) {
  return async () => {
    const { answerMs, hashMs } = await payer.approveAlone({ agentId });
    return { [names.answered]: answerMs, [names.approvedHash]: hashMs };
  };
}

function rawCase(wallet: RawWallet, token: BenchToken) {
  return async () => {
    const { hashMs, confirmedMs } = await wallet.pay({ token });
    return { [names.rawHash(token)]: hashMs, [names.rawReceipt(token)]: confirmedMs };
  };
}

/**
 * Those that pay later, whose wallets the faucet fills; some whose wallets stay empty; one whose payments wait for a
 * person. The first of each is warm-up.
 */
async function makeAgents(payer: PaymentClient, { plan, chain }: { plan: Plan; chain: string }) {
  const make = async (chainId: string, count: number) => {
    const agents: { id: string; ms: number }[] = [];
    for (let index = 0; index <= count; index += 1)
      agents.push(await payer.createAgent({ name: `bench ${chainId} ${index}`, chain: chainId }));
    return agents.slice(1);
  };
  const funded = await make(chain, width);
  const unfunded = await make(unfundedChain, plan.agents);
  const asked = await payer.createAgent({ name: 'bench asked', chain });
  await payer.askForAll({ agentId: asked.id });
  return {
    askedAgentId: asked.id,
    agentIds: funded.map(({ id }) => id),
    durations: new Map([
      [names.agent, unfunded.map(({ ms }) => ms)],
      [names.fundedAgent, funded.map(({ ms }) => ms)],
    ]),
  };
}

/** Each floor right before its subject; a lap of every lane before each, which is not counted. USDC throughout. */
async function measureParallel(
  { payer, raw, agentIds }: { payer: PaymentClient; raw: readonly RawWallet[]; agentIds: readonly string[] },
  { plan, progress, signal }: MeasureContext,
) {
  const throughput = new Map<string, Throughput>();
  const cpuMs = new Map<string, number>();
  const run = (name: string, pay: (o: { lane: number }) => Promise<unknown>) =>
    progress.step(name, async () => {
      const bounds = { width, limitMs: plan.limitMs, signal };
      await inParallel(pay, { ...bounds, total: width });
      const before = readCpuMs();
      const result = await inParallel(pay, { ...bounds, total: plan.payments });
      throughput.set(name, result);
      const after = readCpuMs();
      return { result, used: new Map([...after].map(([part, ms]) => [part, ms - (before.get(part) ?? 0)])) };
    });

  const payers = (count: number) => agentIds.slice(0, count);
  let payments = 0;
  for (const [name, count] of [
    [runs.oneWallet, 1],
    [runs.manyWallets, width],
  ] as const) {
    const floorName = count === 1 ? runs.rawOneWallet : runs.rawManyWallets;
    await run(floorName, ({ lane }) => raw[lane % count]!.pay({ token: 'USDC' }));
    const ids = payers(count);
    const { result, used } = await run(name, ({ lane }) =>
      payer.payAmongOthers({ agentId: ids[lane % count]!, token: 'USDC' }),
    );
    payments += result.done;
    for (const [part, ms] of used) cpuMs.set(part, (cpuMs.get(part) ?? 0) + ms);
  }
  return { throughput, cpuMsPerPayment: new Map([...cpuMs].map(([part, ms]) => [part, ms / payments])) };
}

function makeKeys(signatures: SignatureBench, { plan, signal }: MeasureContext) {
  const make = async () => ({ [names.keygen]: await signatures.generateKeyMs() });
  return interleave([make], { warmUp: 0, rounds: plan.keys, limitMs: plan.limitMs, signal });
}
