import { execFileSync } from 'node:child_process';
import { cpus, loadavg, totalmem } from 'node:os';
import { decisionNames, decisionRuns, type MeasuredDecisions } from './decisions.ts';
import { type Measured, names, runs } from './measure.ts';
import type { Throughput } from './parallel.ts';
import type { BenchToken } from './payments.ts';
import type { Summary } from './samples.ts';
import { type MeasuredX402, x402Names } from './x402.ts';

const tokens: readonly BenchToken[] = ['ETH', 'USDC'];
/** POST → hash may take this many times what signing and Temporal take by themselves. */
const hashAim = 3;
/** An x402 payment may take this many times what signing and one step of a workflow take, without the probe. */
const payAim = 2;

/** A figure beside another one. */
export interface Ratio {
  readonly name: string;
  readonly value: number;
  /** The most that it should be, where that was decided. */
  readonly aim?: number;
  readonly isMet?: boolean;
}

/** What a part measures of itself: durations in milliseconds, and what they are compared with. */
export interface MeasuredPart {
  readonly durations: ReadonlyMap<string, Summary>;
  readonly throughput: ReadonlyMap<string, Throughput>;
  readonly ratios: readonly Ratio[];
}

/** What a payment cost, in the chain's own coin. */
export interface Cost {
  readonly n: number;
  readonly median: string;
  readonly most: string;
}

/** What is measured of payments on a chain of each family. */
export interface MeasuredFamilies extends MeasuredPart {
  readonly costs: ReadonlyMap<string, Cost>;
  /** What could not be measured, and why. */
  readonly skipped: readonly string[];
}

/** A measurement as it is stored. Times are milliseconds, memory megabytes (10^6). */
export interface Report {
  readonly date: string;
  readonly commit: string | null;
  readonly quick: boolean;
  readonly machine: { cpu: string; cores: number; memoryMb: number; node: string };
  /** Load of the machine over the last minute, before and after. On a machine that others use, trust ratios only. */
  readonly load: { before: number; after: number };
  /** Policy decisions by themselves. */
  readonly decisions?: Figures | undefined;
  /** Whole payments. */
  readonly payments?: PaymentFigures | undefined;
  /** Payments out of x402 sessions. */
  readonly x402?: Figures | undefined;
  /** Payments on a chain of each family. */
  readonly families?: FamilyFigures | undefined;
  /** Deliveries to receivers of events. */
  readonly webhooks?: Figures | undefined;
  /** Signatures and refreshes by the signers alone. */
  readonly signatures?: Figures | undefined;
  /** The audit log's chain. */
  readonly audit?: Figures | undefined;
  /** The count of requests of keys that are limited. */
  readonly limits?: Figures | undefined;
  /** Lists with few rows and with many. */
  readonly lists?: Figures | undefined;
  /** What it costs to see and to stop the service. */
  readonly operations?: Figures | undefined;
  /** Time from a kill to the confirmation of a payment that was asked for at that moment, by what was killed; ms. */
  readonly recovery?: Figures['durations'] | undefined;
}

interface Figures {
  readonly durations: Record<string, { n: number; p50: number; p95: number; p99: number; min: number; max: number }>;
  readonly throughput: Record<string, { done: number; seconds: number; perSecond: number }>;
  readonly ratios: readonly Ratio[];
}

interface FamilyFigures extends Figures {
  readonly costs: Record<string, Cost>;
  /** What could not be measured, and why. */
  readonly skipped: readonly string[];
}

interface PaymentFigures extends Figures {
  readonly engine: string;
  /** `rssMb` after the run, `peakMb` the most ever. */
  readonly memory: Record<string, { rssMb: number; peakMb: number }>;
  readonly cpuMsPerPayment: Record<string, number>;
}

export function createReport(
  {
    decisions,
    payments,
    x402,
    families,
    webhooks,
    signatures,
    audit,
    limits,
    lists,
    operations,
    recovery,
  }: {
    decisions: MeasuredDecisions | undefined;
    payments: Measured | undefined;
    x402: MeasuredX402 | undefined;
    families?: MeasuredFamilies | undefined;
    webhooks?: MeasuredPart | undefined;
    signatures?: MeasuredPart | undefined;
    audit?: MeasuredPart | undefined;
    limits?: MeasuredPart | undefined;
    lists?: MeasuredPart | undefined;
    operations?: MeasuredPart | undefined;
    recovery: ReadonlyMap<string, Summary> | undefined;
  },
  o: { date: Date; quick: boolean; loadBefore: number },
): Report {
  return {
    date: o.date.toISOString(),
    commit: commit(),
    quick: o.quick,
    machine: {
      cpu: cpus()[0]?.model ?? 'unknown',
      cores: cpus().length,
      memoryMb: Math.round(totalmem() / 1e6),
      node: process.versions.node,
    },
    load: { before: o.loadBefore, after: loadavg()[0]! },
    decisions: decisions && { ...figures(decisions), ratios: decisionRatios(decisions) },
    payments: payments && {
      engine: payments.engineBuild,
      ...figures(payments),
      memory: Object.fromEntries(payments.memory),
      cpuMsPerPayment: Object.fromEntries(payments.cpuMsPerPayment),
      ratios: paymentRatios(payments),
    },
    x402: x402 && { ...figures(x402), ratios: x402Ratios(x402) },
    families: families && {
      ...figures(families),
      ratios: families.ratios,
      costs: Object.fromEntries(families.costs),
      skipped: families.skipped,
    },
    webhooks: webhooks && { ...figures(webhooks), ratios: webhooks.ratios },
    signatures: signatures && { ...figures(signatures), ratios: signatures.ratios },
    audit: audit && { ...figures(audit), ratios: audit.ratios },
    limits: limits && { ...figures(limits), ratios: limits.ratios },
    lists: lists && { ...figures(lists), ratios: lists.ratios },
    operations: operations && { ...figures(operations), ratios: operations.ratios },
    recovery: recovery && Object.fromEntries(recovery),
  };
}

function figures({ durations, throughput }: Pick<Measured, 'durations' | 'throughput'>) {
  return { durations: Object.fromEntries(durations), throughput: Object.fromEntries(throughput) };
}

function decisionRatios({ durations, throughput }: MeasuredDecisions): Ratio[] {
  const p50 = (name: string) => durations.get(name)!.p50;
  const rate = (name: string) => throughput.get(name)!.perSecond;
  const { select, bare, none, few, many, past10k, past100k } = decisionNames;
  return [
    ...[select, none, few, many, past10k, past100k].map((name) => ({
      name: `${name} / lock, insert, commit`,
      value: p50(name) / p50(bare),
    })),
    { name: '10,000 past / 10 past', value: p50(past10k) / p50(few) },
    { name: '100,000 past / 10 past', value: p50(past100k) / p50(few) },
    {
      name: 'decisions/s / lock, insert, commit, 1 agent',
      value: rate(decisionRuns.oneAgent) / rate(decisionRuns.bareOneAgent),
    },
    {
      name: 'decisions/s / lock, insert, commit, 50 agents',
      value: rate(decisionRuns.manyAgents) / rate(decisionRuns.bareManyAgents),
    },
  ];
}

function paymentRatios({ durations, throughput }: Measured): Ratio[] {
  const p50 = (name: string) => durations.get(name)!.p50;
  const rate = (name: string) => throughput.get(name)!.perSecond;
  const floorMs = p50(names.signature) + p50(names.workflow3);
  return [
    ...tokens.map((token): Ratio => {
      const value = p50(names.hash(token)) / floorMs;
      const name = `${names.hash(token)} / (signature + workflow with 3)`;
      return { name, value, aim: hashAim, isMet: value <= hashAim };
    }),
    {
      name: `${names.approvedHash} / ${names.hash('USDC')}`,
      value: p50(names.approvedHash) / p50(names.hash('USDC')),
    },
    ...tokens.map((token) => ({
      name: `${names.confirmed(token)} / raw viem → receipt`,
      value: p50(names.confirmed(token)) / p50(names.rawReceipt(token)),
    })),
    { name: 'payments/s / raw viem, 1 wallet', value: rate(runs.oneWallet) / rate(runs.rawOneWallet) },
    { name: 'payments/s / raw viem, 50 wallets', value: rate(runs.manyWallets) / rate(runs.rawManyWallets) },
    { name: 'signature through the signers / in one process', value: p50(names.signature) / p50(names.engine) },
  ];
}

function x402Ratios({ durations }: MeasuredX402): Ratio[] {
  const p50 = (name: string) => durations.get(name)!.p50;
  const value = p50(x402Names.payOnly) / (p50(names.signature) + p50(names.workflow1));
  return [
    {
      ...{ name: `${x402Names.payOnly} / (signature + workflow with 1)`, value },
      ...{ aim: payAim, isMet: value <= payAim },
    },
    {
      name: 'x402 / official client, local key, with the probe',
      value: p50(x402Names.pay) / p50(x402Names.officialProbe),
    },
  ];
}

function commit(): string | null {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return null;
  }
}
