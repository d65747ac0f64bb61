import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { withConfigurationTable } from '../../dev/configuration-table.ts';
import { isKnownVariable, unknownVariables } from '../../shared/unknown-variables.ts';
import { type Variable, variables } from '../../shared/variables.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const sourceOf = (patterns: string[]) =>
  globSync(patterns, { cwd: root, exclude: (name) => /node_modules|variables\.ts$/.test(String(name)) })
    .map((file) => readFileSync(join(root, file), 'utf8'))
    .join('\n');
const code = sourceOf(['{api,worker,activities,shared,signer,sdk,dev,bench}/**/*.{ts,mjs}']);
const table: Readonly<Record<string, Variable>> = variables;

describe('the list of variables', () => {
  it('names every variable that code reads', () => {
    const named = new Set(code.match(/\b(PURSER_[A-Z][A-Z0-9_]*[A-Z0-9])\b(?!_)/g));
    const beginnings = Object.keys(table).map((name) => name.replace(/_<CHAIN>$/, ''));
    const unlisted = [...named].filter((name) => !isKnownVariable(name) && !beginnings.includes(name));
    expect(unlisted.filter((name) => !beginnings.some((other) => other.startsWith(`${name}_`)))).toEqual([]);
  });

  it('names no variable that nothing reads', () => {
    const idle = Object.keys(table).filter((name) => !code.includes(name.replace(/_<CHAIN>$/, '')));
    expect(idle.filter((name) => !readByTests.includes(name) && !readByOpenTelemetry.includes(name))).toEqual([]);
  });

  it('has the defaults of the schemas', () => {
    const schemas = sourceOf(['shared/config*.ts', 'signer/config.ts']);
    const defaults = [
      ...schemas.matchAll(/^ {2,4}([A-Z_]+):((?:(?!^ {2,4}[A-Z_]+:)[\s\S])*?)\.(?:default|prefault)\(([^)]*)\)/gm),
    ];
    expect(defaults.length).toBeGreaterThan(20);
    for (const [, name = '', , value = ''] of defaults) {
      const written = value.replace(/^'(.*)'$/, '$1').replaceAll('_', '');
      const told = table[name]?.byDefault;
      if (value === '[]') expect(told, name).toMatch(/^none/);
      else if (value.startsWith('[')) expect(told, name).toBe('all');
      else if (name !== 'PURSER_ENV') expect(told, name).toBe(written);
    }
  });

  it('tells a unit of all that is a number', () => {
    const schemas = sourceOf(['shared/config*.ts']);
    const numbers = [...schemas.matchAll(/^ {2,4}([A-Z_]+): (?:z\.coerce\.number|port\b)/gm)].map(([, name]) => name!);
    expect(numbers.length).toBeGreaterThan(10);
    expect(numbers.filter((name) => !table[name]?.unit)).toEqual([]);
  });

  it('is the table in the README; else: node dev/configuration-table.ts', () => {
    const readme = readFileSync(join(root, 'README.md'), 'utf8');
    expect(withConfigurationTable(readme)).toBe(readme);
  });
});

const readByTests = ['PURSER_CHROMIUM'];
const readByOpenTelemetry = ['OTEL_EXPORTER_OTLP_HEADERS'];

describe('a variable that nothing reads', () => {
  it('is told with the name that was probably meant, and never with its value', () => {
    expect(unknownVariables({ PURSER_DATABASE_POOLS: 'hunter2', PURSER_GIVEUP_SECONDS: '1' })).toEqual([
      'PURSER_DATABASE_POOLS is no variable that Purser reads: is PURSER_DATABASE_POOL meant?',
      'PURSER_GIVEUP_SECONDS is no variable that Purser reads: is PURSER_GIVE_UP_SECONDS meant?',
    ]);
    expect(unknownVariables({ PURSER_WHATEVER_ELSE_THERE_IS: '1' })).toEqual([
      'PURSER_WHATEVER_ELSE_THERE_IS is no variable that Purser reads.',
    ]);
  });

  it('is none of another program, of one chain, or of the services that Kubernetes tells of', () => {
    const env = {
      PATH: '/bin',
      PURSER_PORT: '8080',
      PURSER_RPC_EIP155_8453: 'https://a',
      PURSER_API_SERVICE_HOST: '10.0.0.1',
      PURSER_API_SERVICE_PORT: '80',
      PURSER_API_PORT: 'tcp://10.0.0.1:80',
      PURSER_API_PORT_80_TCP_ADDR: '10.0.0.1',
    };
    expect(unknownVariables(env)).toEqual([]);
    expect(unknownVariables({ PURSER_SIGNERPORT: '1', PURSER_RPC_: 'x' })).toHaveLength(2);
  });
});
