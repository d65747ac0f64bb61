import { readFileSync } from 'node:fs';
import { parser } from '@prometheus-io/lezer-promql';
import { parse } from 'yaml';

const file = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly forMs: number;
  readonly severity: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The alerts of deploy/prometheus/rules.yml. */
export function readAlertRules(): AlertRule[] {
  interface Written {
    alert: string;
    expr: string;
    for?: `${number}m`;
    labels: { severity: string };
    annotations: Record<string, string>;
  }
  const { groups } = parse(file('deploy/prometheus/rules.yml')) as { groups: { rules: Written[] }[] };
  return groups
    .flatMap(({ rules }) => rules)
    .map(({ alert, expr, for: lasting = '0m', labels: { severity }, annotations }) => ({
      ...{ alert, expr, severity, annotations, forMs: Number.parseInt(lasting, 10) * 60_000 },
    }));
}

/** Every expression of the dashboard. */
export function readDashboardExpressions(): string[] {
  const { panels } = JSON.parse(file('deploy/grafana/purser.json')) as { panels: { targets?: { expr: string }[] }[] };
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}

/** Names of the metrics in an expression, by Prometheus' own grammar. @throws Error where it is not PromQL */
export function metricsIn(expr: string): string[] {
  const names: string[] = [];
  parser.parse(expr).iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`${expr} is not PromQL, at ${node.from}`);
      const parent = node.node.parent?.name;
      if (node.name === 'Identifier' && parent === 'VectorSelector') names.push(expr.slice(node.from, node.to));
    },
  });
  return names;
}
