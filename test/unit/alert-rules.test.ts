import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { metricsIn, readAlertRules, readDashboardExpressions } from '../support/alert-rules.ts';

const document = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');

describe('alerts', () => {
  const rules = readAlertRules();

  it('each have a name of their own, a severity, and words for what is wrong and what to do', () => {
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
    for (const { alert, severity, annotations } of rules) {
      expect(['critical', 'warning', 'info'], alert).toContain(severity);
      expect(Object.keys(annotations).toSorted(), alert).toEqual(['description', 'runbook', 'summary']);
    }
  });

  it('are described where their annotation points to, as they are', () => {
    for (const { alert, expr, annotations } of rules) {
      expect(annotations.runbook).toBe(`docs/metrics.md#${alert.toLowerCase()}`);
      expect(document).toContain(`\n### ${alert}\n`);
      expect(document, alert).toContain(`\`${expr}\``);
    }
    expect(document.match(/^### /gm)).toHaveLength(rules.length);
  });

  it('and the dashboard are PromQL, and name metrics of ours or of the processes', () => {
    const expressions = [...rules.map(({ expr }) => expr), ...readDashboardExpressions()];
    expect(expressions.length).toBeGreaterThan(60);
    for (const expr of expressions) {
      expect(metricsIn(expr).length, expr).toBeGreaterThan(0);
      for (const name of metricsIn(expr)) expect(name).toMatch(/^(up|purser_|process_|nodejs_)/);
    }
  });

  it('would be found to be none: the grammar refuses what is not PromQL', () => {
    for (const wrong of ['sum by (chain (a)', 'a >', 'rate(a[5x])']) expect(() => metricsIn(wrong)).toThrow('PromQL');
  });
});
