import type { AlertRule } from './alert-rules.ts';
import type { PromqlEngine, Series } from './promql-engine.ts';

/** How often Prometheus looks, and judges. */
const intervalMs = 15_000;

/** What was read at one moment: value by series, whose name is the JSON of its labels in their order. */
export interface Scrape {
  readonly atMs: number;
  readonly values: ReadonlyMap<string, number>;
}

/** Where a process serves its metrics, by the job under which Prometheus knows it. */
export interface Target {
  readonly job: string;
  readonly instance: string;
  readonly read: () => Promise<string>;
}

/** Reads all targets as Prometheus does: `up` is 0 for those that do not answer. */
export async function scrapeAll(targets: readonly Target[]): Promise<Scrape> {
  const atMs = Date.now();
  const values = new Map<string, number>();
  await Promise.all(
    targets.map(async ({ job, instance, read }) => {
      const text = await read().catch(() => undefined);
      values.set(nameOf({ __name__: 'up', job, instance }), Number(text !== undefined));
      for (const { labels, value } of parseExposition(text ?? ''))
        values.set(nameOf({ ...labels, job, instance }), value);
    }),
  );
  return { atMs, values };
}

/** @see https://prometheus.io/docs/instrumenting/exposition_formats/ */
function parseExposition(text: string): { labels: Record<string, string>; value: number }[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name, inner = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line)!;
      const labels: Record<string, string> = { __name__: name! };
      for (const [, key, text] of inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[key!] = text!;
      return { labels, value: value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value) };
    });
}

const nameOf = (labels: Record<string, string>) => JSON.stringify(Object.entries(labels).toSorted());

/** Value of a metric with these labels at least; of several the sum. Undefined where there is none. */
export function metricOf(
  { values }: Scrape,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = [...values].filter(([series]) => {
    const has = Object.fromEntries(JSON.parse(series) as [string, string][]);
    return has.__name__ === name && Object.entries(labels).every(([key, value]) => has[key] === value);
  });
  return found.length === 0 ? undefined : found.reduce((sum, [, value]) => sum + value, 0);
}

/**
 * Which alerts fire when what was seen last goes on for an hour: gauges stay, counters grow as between the last two
 * looks, and times of what happened last keep up with the clock if they moved between those. Judged every fifteen seconds, as Prometheus does.
 */
export async function alertsFiring(
  engine: PromqlEngine,
  { rules, scrapes }: { rules: readonly AlertRule[]; scrapes: readonly [Scrape, Scrape] },
): Promise<string[]> {
  const last = scrapes[1];
  const looks = Array.from({ length: 240 }, (_, index) => last.atMs + index * intervalMs);
  const questions = rules.flatMap(({ expr }) => looks.map((atMs) => ({ expr, atMs })));
  const answers = await engine.ask({ series: goOn(scrapes, looks), questions });
  return rules
    .filter(({ forMs }, place) => {
      let sinceMs: number | undefined;
      return looks.some((atMs, index) => {
        if (answers[place * looks.length + index]!.length === 0) sinceMs = undefined;
        else sinceMs ??= atMs;
        return sinceMs !== undefined && atMs - sinceMs >= forMs;
      });
    })
    .map(({ alert }) => alert);
}

function goOn([before, last]: readonly [Scrape, Scrape], looks: readonly number[]): Series[] {
  const names = new Set([...before.values.keys(), ...last.values.keys()]);
  return [...names].map((series) => {
    const labels = Object.fromEntries(JSON.parse(series) as [string, string][]);
    const [from, to] = [before.values.get(series), last.values.get(series)];
    const change = (to ?? 0) - (from ?? to ?? 0);
    const name = labels.__name__!;
    const growth = name.endsWith('_timestamp_seconds')
      ? Number(change > 0) * (intervalMs / 1000)
      : Number(/_(total|bucket|sum|count)$/.test(name)) * change;
    return {
      labels,
      samples: [
        ...(from === undefined ? [] : [[before.atMs, from] as const]),
        ...(to === undefined ? [] : looks.map((atMs, index) => [atMs, to + growth * index] as const)),
      ],
    };
  });
}
