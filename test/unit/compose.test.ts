import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { apiConfig, workerConfig } from '../../shared/config.ts';
import { isKnownVariable, unknownVariables } from '../../shared/unknown-variables.ts';
import { type Variable, variables } from '../../shared/variables.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
interface Service {
  command?: string[];
  environment?: Record<string, string | number>;
  volumes?: string[];
  networks?: string[];
  ports?: string[];
  env_file?: { path: string }[];
  stop_grace_period?: string;
}
const { services } = parse(readFileSync(join(root, 'docker-compose.yml'), 'utf8'), { merge: true }) as {
  services: Record<string, Service>;
};
/** Of our image. */
const ours = Object.entries(services).filter(([, { command }]) => command?.[0] === 'node');

/** What the comments of the file have an administrator put into `.env` and `.env.chains`. */
const dotEnv: Record<string, string> = {
  PURSER_CHAINS: 'eip155:8453',
  PURSER_PUBLIC_URL: 'https://purser.example.com',
  PURSER_MAIL_FROM: 'Purser <purser@example.com>',
  PURSER_SMTP_URL: 'smtps://user:password@mail.example.com:465',
  PURSER_OIDC_ISSUER: 'https://provider.example.com',
  PURSER_OIDC_CLIENT_ID: 'purser',
};
const dotEnvChains = { PURSER_RPC_EIP155_8453: 'https://node.example.com' };

/** As Docker Compose fills them in: `${NAME}`, `${NAME:-default}`, `${NAME:?what to do}`. */
function environmentOf(service: Service): Record<string, string> {
  const filled = Object.entries(service.environment ?? {}).map(([name, value]) => [
    name,
    String(value).replace(
      /\$\{(\w+)(?::([-?])([^}]*))?\}/g,
      (_, wanted: string, kind: string | undefined, rest: string) =>
        dotEnv[wanted] ?? (kind === '-' ? rest : kind === '?' ? `the ${wanted}`.replaceAll(' ', '_') : ''),
    ),
  ]);
  return { ...Object.fromEntries(filled), ...(service.env_file && dotEnvChains) };
}
const told = (name: string) => environmentOf(services[name]!);

describe('docker-compose.yml', () => {
  it.each(ours)('tells %s only variables that are read', (_, service) => {
    const environment = environmentOf(service);
    expect(Object.keys(environment).filter((name) => !isKnownVariable(name))).toEqual([]);
    expect(unknownVariables(environment)).toEqual([]);
  });

  it('tells api and workers all that they must know: they start with it', () => {
    expect(apiConfig(told('api'))).toMatchObject({ environment: 'production', traces: undefined });
    const queues = Object.keys(services)
      .filter((name) => name.startsWith('worker-'))
      .map((name) => workerConfig(told(name)).queues);
    expect(queues.flat().sort()).toEqual(['wallet', 'wallet-chain', 'wallet-signing', 'wallet-webhooks']);
  });

  it('names in .env what is required and has no default', () => {
    const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
    for (const [, name] of text.matchAll(/\$\{(\w+):\?/g)) {
      const table: Readonly<Record<string, Variable>> = variables;
      // Passwords and public halves of keys become parts of other variables.
      const isPart = /(_PASSWORD|_PUBLIC_KEY)$/.test(name!);
      expect(isPart || table[name!] !== undefined, name).toBe(true);
    }
  });

  it('has metrics of every long-running process, inside the networks only', () => {
    for (const [name, service] of ours) {
      if (name === 'migrate') continue;
      expect(told(name), name).toMatchObject({ PURSER_METRICS_HOST: '0.0.0.0', PURSER_METRICS_PORT: '9464' });
      for (const port of service.ports ?? []) expect(port).not.toContain('9464');
    }
  });

  it('passes traces on, and gives signers no way out to send any', () => {
    dotEnv.OTEL_EXPORTER_OTLP_ENDPOINT = 'http://collector:4318';
    try {
      for (const name of ['api', 'worker-wallet', 'worker-signing', 'worker-chain', 'worker-webhooks'])
        expect(told(name).OTEL_EXPORTER_OTLP_ENDPOINT, name).toBe('http://collector:4318');
      for (const party of [1, 2, 3]) {
        expect(told(`signer-${party}`)).not.toHaveProperty('OTEL_EXPORTER_OTLP_ENDPOINT');
        expect(services[`signer-${party}`]!.networks).toEqual(['signers']);
      }
    } finally {
      delete dotEnv.OTEL_EXPORTER_OTLP_ENDPOINT;
    }
  });

  it('mounts each process the keys that deploy/init-keys.sh makes for it, and no other', () => {
    const folders = ours.map(([name, { volumes = [] }]) => [
      name,
      volumes.filter((one) => one.startsWith('./keys/')).map((one) => one.split(':')[0]!.slice('./keys/'.length)),
    ]);
    expect(Object.fromEntries(folders)).toEqual({
      ...{ migrate: [], api: ['api'], 'worker-wallet': ['policy'], 'worker-signing': ['coordinator'] },
      ...{ 'worker-chain': [], 'worker-webhooks': ['webhooks'] },
      ...{ 'signer-1': ['signer-1'], 'signer-2': ['signer-2'], 'signer-3': ['signer-3'] },
    });
  });
});
