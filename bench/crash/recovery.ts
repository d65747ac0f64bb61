import type { PartName } from '../../test/support/own-stack.ts';
import { summarise } from '../samples.ts';
import type { RoundResult } from './run-round.ts';

/** What is killed, without which one of several equal ones it was. */
export type KillKind = 'api' | 'worker' | 'signer' | 'temporal' | 'postgres';

/** Milliseconds from each kill on, by what was killed. */
export interface Recovery {
  /** Until the next payment of the round was confirmed; kills after which none was left to confirm are not in it. */
  readonly next: Partial<Record<KillKind, number[]>>;
  /** Until every payment of the round that had been accepted by then had ended, where any was pending. */
  readonly all: Partial<Record<KillKind, number[]>>;
}

export const killKind = (part: PartName): KillKind => part.replace(/-\d$/, '') as KillKind;

export function measureRecovery({ kills, stored }: RoundResult): Recovery {
  const recovery: Recovery = { next: {}, all: {} };
  const payments = stored.map(({ status, created_at, updated_at }) => ({
    status,
    from: Date.parse(created_at),
    to: Date.parse(updated_at),
  }));
  for (const { part, at } of kills) {
    const kind = killKind(part);
    const confirmed = payments.filter(({ status, to }) => status === 'confirmed' && to >= at);
    if (confirmed.length > 0) add(recovery.next, kind, Math.min(...confirmed.map(({ to }) => to)) - at);
    const pending = payments.filter(({ from, to }) => from <= at && to >= at);
    if (pending.length > 0) add(recovery.all, kind, Math.max(...pending.map(({ to }) => to)) - at);
  }
  return recovery;
}

function add(samples: Partial<Record<KillKind, number[]>>, kind: KillKind, ms: number): void {
  samples[kind] = [...(samples[kind] ?? []), ms];
}

/** Both recoveries as one; the arguments stay as they are. */
export function addRecovery(a: Recovery, b: Recovery): Recovery {
  const join = (one: Recovery['next'], other: Recovery['next']) => {
    const joined = { ...one };
    for (const [kind, values] of Object.entries(other) as [KillKind, number[]][])
      joined[kind] = [...(joined[kind] ?? []), ...values];
    return joined;
  };
  return { next: join(a.next, b.next), all: join(a.all, b.all) };
}

/** A line for each kind of kill. */
export function describeRecovery({ next, all }: Recovery): string[] {
  const seconds = (ms: number) => (ms / 1000).toFixed(1);
  const words = (values: readonly number[] | undefined) => {
    if (!values?.length) return '–';
    const { n, p50, p95 } = summarise(values);
    return `p50 ${seconds(p50)} s, p95 ${seconds(p95)} s (${n})`;
  };
  const kinds = [...new Set([...Object.keys(next), ...Object.keys(all)])].toSorted() as KillKind[];
  return kinds.map((kind) => `${kind.padEnd(9)} next confirmed ${words(next[kind])}; all ended ${words(all[kind])}`);
}
