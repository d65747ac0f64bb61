import { execFileSync } from 'node:child_process';
import { cpus, loadavg, totalmem } from 'node:os';
import { type Measured, names, runs } from './measure.ts';
import type { BenchToken } from './payments.ts';

const tokens: readonly BenchToken[] = ['ETH', 'USDC'];
/** POST → hash may take this many times what signing and Temporal take by themselves. */
const hashAim = 3;

interface Ratio {
  readonly name: string;
  readonly value: number;
  /** The most that it should be, where that was decided. */
  readonly aim?: number;
  readonly isMet?: boolean;
}

/** A measurement as it is stored. Times are milliseconds, memory megabytes (10^6). */
export interface Report {
  readonly date: string;
  readonly commit: string | null;
  readonly quick: boolean;
  readonly machine: { cpu: string; cores: number; memoryMb: number; node: string; engine: string };
  /** Load of the machine over the last minute, before and after. On a machine that others use, trust ratios only. */
  readonly load: { before: number; after: number };
  readonly durations: Record<string, { n: number; p50: number; p95: number; min: number; max: number }>;
  readonly throughput: Record<string, { done: number; seconds: number; perSecond: number }>;
  /** `rssMb` after the run, `peakMb` the most ever. */
  readonly memory: Record<string, { rssMb: number; peakMb: number }>;
  readonly cpuMsPerPayment: Record<string, number>;
  readonly ratios: readonly Ratio[];
}

export function createReport(measured: Measured, o: { date: Date; quick: boolean; loadBefore: number }): Report {
  return {
    date: o.date.toISOString(),
    commit: commit(),
    quick: o.quick,
    machine: {
      cpu: cpus()[0]?.model ?? 'unknown',
      cores: cpus().length,
      memoryMb: Math.round(totalmem() / 1e6),
      node: process.versions.node,
      engine: measured.engineBuild,
    },
    load: { before: o.loadBefore, after: loadavg()[0]! },
    durations: Object.fromEntries(measured.durations),
    throughput: Object.fromEntries(measured.throughput),
    memory: Object.fromEntries(measured.memory),
    cpuMsPerPayment: Object.fromEntries(measured.cpuMsPerPayment),
    ratios: ratios(measured),
  };
}

function ratios({ durations, throughput }: Measured): Ratio[] {
  const p50 = (name: string) => durations.get(name)!.p50;
  const rate = (name: string) => throughput.get(name)!.perSecond;
  const floorMs = p50(names.signature) + p50(names.workflow3);
  return [
    ...tokens.map((token): Ratio => {
      const value = p50(names.hash(token)) / floorMs;
      const name = `${names.hash(token)} / (signature + workflow with 3)`;
      return { name, value, aim: hashAim, isMet: value <= hashAim };
    }),
    ...tokens.map((token) => ({
      name: `${names.confirmed(token)} / raw viem → receipt`,
      value: p50(names.confirmed(token)) / p50(names.rawReceipt(token)),
    })),
    { name: 'payments/s / raw viem, 1 wallet', value: rate(runs.oneWallet) / rate(runs.rawOneWallet) },
    { name: 'payments/s / raw viem, 20 wallets', value: rate(runs.manyWallets) / rate(runs.rawManyWallets) },
    { name: 'signature through the signers / in one process', value: p50(names.signature) / p50(names.engine) },
  ];
}

function commit(): string | null {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return null;
  }
}
