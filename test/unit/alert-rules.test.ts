import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { isKnownVariable } from '../../shared/unknown-variables.ts';
import { variables } from '../../shared/variables.ts';
import { metricsIn, readAlertRules, readDashboardExpressions } from '../support/alert-rules.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(`${root}/${path}`, 'utf8');
const sourceOf = (pattern: string) => globSync(pattern, { cwd: root }).map(read).join('\n');
const document = read('docs/metrics.md');
/** As GitHub makes anchors of headings. */
const anchorsOf = (path: string) =>
  [...read(path).matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
/** In the document, what an alert fills in stands in braces. */
const asWritten = (text: string) =>
  text.replaceAll(/{{ \$labels\.(\w+) }}/g, '{$1}').replaceAll(/{{ \$value[^}]*}}/g, '{value}');

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
      expect(document, alert).toContain(`. ${asWritten(annotations.summary!)}.\n`);
      expect(document, alert).toContain(`\n${asWritten(annotations.description!)}\n`);
      expect(annotations.runbook).toBe(`docs/metrics.md#${alert.toLowerCase()}`);
      expect(document).toContain(`\n### ${alert}\n`);
      expect(document, alert).toContain(`\`${expr}\``);
    }
    expect(document.match(/^### /gm)).toHaveLength(rules.length);
  });

  it('say how much, unless it is a yes or no, and of what', () => {
    for (const { alert, expr, annotations } of rules) {
      const { summary = '' } = annotations;
      const isYesOrNo = /== 0$|^absent|purser_frozen/.test(expr);
      expect(summary.includes('$value'), `${alert}: ${summary}`).toBe(!isYesOrNo);
      // A count is of all of them together.
      const [, by = ''] = (!expr.startsWith('count') && /by \(([^)]+)\)/.exec(expr)) || [];
      const labels = by.split(', ').filter((label) => label !== '');
      for (const label of labels.filter((each) => each !== 'le')) expect(summary, alert).toContain(`$labels.${label} `);
    }
  });

  it('tell nobody to use what is not there: commands, endpoints, variables, metrics, schedules, log lines, chapters', () => {
    const [admin, signers] = [sourceOf('api/{admin.ts,admin/**/*.ts}'), sourceOf('signer/cli/*.ts')];
    const [routes, schedules] = [sourceOf('api/routes/*.ts'), read('worker/schedules.ts')];
    const code = sourceOf('{activities,shared}/**/*.ts');
    const names: string[] = [];
    for (const { annotations } of rules) {
      const text = `${annotations.summary} ${annotations.description}`;
      const found = (pattern: RegExp, isThere: (...groups: string[]) => boolean) => {
        for (const [whole, ...groups] of text.matchAll(pattern)) {
          names.push(whole);
          expect(isThere(...groups), `${whole} is not there`).toBe(true);
        }
      };
      found(/npm run admin -- ((?:[a-z]+ ?)+)/g, (command) =>
        new RegExp(`^ +'?${firstWords(command!)}'?[:,]`, 'm').test(admin),
      );
      found(/npm run signers -- ([a-z]+)/g, (command) => new RegExp(`'${command}|  ${command}\\b`).test(signers));
      found(/\b(GET|POST|PUT) (\/[\w/{}-]+)/g, (method, path) =>
        path === '/readyz'
          ? read('api/routes/health.ts').includes(`\`${path}\``)
          : new RegExp(`method: '${method!.toLowerCase()}',\\s+path: '${path}'`).test(routes),
      );
      found(/\b(PURSER_[A-Z_]+|TEMPORAL_[A-Z]+)/g, (name) => isKnownVariable(name!) || isBeginning(name!));
      found(/\b(?:purser|temporal)_\w+/g, () => true);
      for (const [name] of text.matchAll(/\b(?:purser|temporal)_\w+/g)) expect(document).toContain(`\`${name}\``);
      found(/[Ss]chedule ([a-z-]+)/g, (id) => new RegExp(`^  '?${id}'?: {$`, 'm').test(schedules));
      found(/"([^"]+)"/g, (line) => code.includes(`'${line}'`));
      found(/(docs\/\w+\.md)#([a-z-]+)/g, (path, anchor) => anchorsOf(path!).includes(anchor!));
      found(/\bPurser[A-Z]\w+/g, () => true);
      for (const [name] of text.matchAll(/\bPurser[A-Z]\w+/g)) expect(rules.map(({ alert }) => alert)).toContain(name);
    }
    // That the patterns find anything at all.
    expect(names.length).toBeGreaterThan(50);
  });

  it('and the dashboard are PromQL, and name metrics of ours or of the processes', () => {
    const expressions = [...rules.map(({ expr }) => expr), ...readDashboardExpressions()];
    expect(expressions.length).toBeGreaterThan(60);
    for (const expr of expressions) {
      expect(metricsIn(expr).length, expr).toBeGreaterThan(0);
      for (const name of metricsIn(expr)) expect(name).toMatch(/^(up|purser_|temporal_|process_|nodejs_)/);
    }
  });

  it('would be found to be none: the grammar refuses what is not PromQL', () => {
    for (const wrong of ['sum by (chain (a)', 'a >', 'rate(a[5x])']) expect(() => metricsIn(wrong)).toThrow('PromQL');
  });
});

/** A command and what it is about: `approval approve`, and not the words of the sentence after it. */
function firstWords(text: string): string {
  const [command, about] = text.trim().split(' ');
  return ['approval', 'freeze', 'unfreeze'].includes(command!) ? `${command} ${about}` : command!;
}

/** Of those that are there once for each chain, or of several. */
function isBeginning(name: string): boolean {
  return Object.keys(variables).some((each) => each.startsWith(name.replace(/_?$/, '_')));
}
