import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { initTokenKeys } from '../../api/init-token-keys.ts';
import { markDevelopment } from '../../dev/mark-development.ts';
import { freePort } from '../../dev/ports.ts';
import { prepareKeys, type StackKeys, signerEndpoints } from '../../dev/signers.ts';
import { createPool, type Pool } from '../../shared/db/pool.ts';
import { developmentMark } from '../../shared/domain/development-mark.ts';
import { createInstallation, requireInstallation } from '../../shared/installation.ts';
import { createLogger } from '../../shared/log.ts';
import { ConfigError } from '../../shared/read-env.ts';
import { initSecrets } from '../../signer/init.ts';
import { initWebhookKeys } from '../../worker/init-webhook-keys.ts';
import { eventually } from '../support/client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { startOwnTemporal } from '../support/temporal.ts';

const silent = createLogger({ process: 'test', level: 'silent' });
const dir = mkdtempSync(join(tmpdir(), 'purser-environments-'));
const nobody = '127.0.0.1:1';
const patiently = { timeoutMs: 60_000 };

/** Makes a database look like one of a server that `npm start` did not bring along. */
async function unmark({ url }: TestDatabase): Promise<void> {
  const client = new pg.Client({ connectionString: inject('stack').superuserUrl });
  await client.connect();
  await client.query(`alter database ${new URL(url).pathname.slice(1)} set purser.embedded = 'off'`);
  await client.end();
}

async function environmentOf({ ownerUrl }: TestDatabase): Promise<string | undefined> {
  const client = new pg.Client({ connectionString: ownerUrl });
  await client.connect();
  const { rows } = await client.query<{ environment: string }>('select environment from installation');
  await client.end();
  return rows[0]?.environment;
}

describe('an installation', () => {
  let database: TestDatabase;
  let pools: Pool[] = [];
  beforeEach(async () => {
    database = await createTestDatabase();
    return async () => {
      await Promise.all(pools.map((pool) => pool.end()));
      pools = [];
      await database.drop();
    };
  });

  const check = (
    environment: 'sandbox' | 'production',
    persistenceStore = async () => 'postgres12' as string | null,
  ) => {
    const pool = createPool({ url: database.url, application: 'test-environments', max: 2 });
    pools.push(pool);
    return createInstallation({ environment, secrets: [], pool, persistenceStore });
  };

  it.each(['sandbox', 'production'] as const)('is %s for good once a process of it was first', async (environment) => {
    await unmark(database);
    const other = environment === 'sandbox' ? 'production' : 'sandbox';
    expect(await check(environment).database()).toEqual([]);
    expect(await check(environment).database()).toEqual([]);
    expect(await check(other).database()).toEqual([
      expect.stringContaining(`DATABASE_URL leads to a ${environment} installation, and PURSER_ENV is ${other}.`),
    ]);
    expect(await environmentOf(database)).toBe(environment);
  });

  it('is what one of the first is, when processes of both kinds come at once', async () => {
    await unmark(database);
    const kinds = Array.from({ length: 12 }, (_, index) => (index % 2 === 0 ? 'sandbox' : 'production'));
    const found = await Promise.all(kinds.map(async (kind) => ({ kind, wrong: await check(kind).database() })));
    const environment = await environmentOf(database);
    for (const { kind, wrong } of found) expect(wrong).toHaveLength(kind === environment ? 0 : 1);
  });

  it('cannot be made the other one by a process', async () => {
    await check('sandbox').database();
    const pool = createPool({ url: database.url, application: 'test-environments' });
    pools.push(pool);
    await expect(pool.query("update installation set environment = 'production'")).rejects.toThrow(/permission denied/);
    await expect(pool.query('delete from installation')).rejects.toThrow(/permission denied/);
    await expect(
      pool.query("insert into installation (only_one, environment) values (false, 'sandbox')"),
    ).rejects.toThrow();
  });

  it('for real money is none on the database that npm start brings along, and leaves no mark there', async () => {
    expect(await check('production').database()).toEqual([
      expect.stringMatching(/^DATABASE_URL .* refused in production/),
    ]);
    expect(await environmentOf(database)).toBeUndefined();
    expect(await check('sandbox').database()).toEqual([]);
    expect(await check('production').database()).toEqual([
      expect.stringMatching(/that npm start brings along/),
      expect.stringMatching(/leads to a sandbox installation/),
    ]);
  });

  it('for real money leaves no mark on a database while Temporal is a development server', async () => {
    await unmark(database);
    const installation = check('production', async () => 'sqlite');
    expect(await installation.database()).toEqual([]);
    expect(await installation.temporal()).toEqual([expect.stringMatching(/^TEMPORAL_ADDRESS .* start-dev/)]);
    expect(await environmentOf(database)).toBeUndefined();
  });

  it('for real money works with Temporal that does not tell where it keeps its data, and asks again one that is down', async () => {
    const failing = (code: number) => async () => {
      throw Object.assign(new Error('refused'), { code });
    };
    for (const code of [7, 12]) expect(await check('production', failing(code)).temporal()).toEqual([]);
    for (const code of [4, 14]) await expect(check('production', failing(code)).temporal()).rejects.toThrow('refused');
    let asked = 0;
    const { temporal } = check('production', async () => {
      asked += 1;
      if (asked === 1) throw Object.assign(new Error('down'), { code: 14 });
      return 'sqlite';
    });
    await expect(temporal()).rejects.toThrow('down');
    expect(await Promise.all([temporal(), temporal()])).toEqual([expect.anything(), expect.anything()]);
    expect(await temporal()).toHaveLength(1);
    expect(asked).toBe(2);
  });

  it('for trying out takes any Temporal, and does not ask', async () => {
    const never = async () => {
      throw new Error('asked');
    };
    expect(await check('sandbox', never).temporal()).toEqual([]);
  });

  it('is waited for until it answers, and no longer than somebody waits', async () => {
    const stopped = new AbortController();
    let isUp = false;
    const answer = async () => {
      if (!isUp) throw new Error('down');
      return [];
    };
    const waiting = requireInstallation({
      installation: { secrets: [], database: answer, temporal: answer },
      log: silent,
      signal: stopped.signal,
    });
    isUp = true;
    await waiting;
    isUp = false;
    const other = requireInstallation({
      installation: { secrets: [], database: answer, temporal: answer },
      log: silent,
      signal: stopped.signal,
    });
    stopped.abort();
    await other;
  });

  it('is told everything that is wrong with it together, also while a part of it is down', async () => {
    const wrong = (sentence: string) => async () => [sentence];
    const down = async () => {
      throw new Error('down');
    };
    const { signal } = new AbortController();
    const told = (installation: Parameters<typeof requireInstallation>[0]['installation']) =>
      requireInstallation({ installation, log: silent, signal }).then(
        () => '',
        (error: unknown) => {
          expect(error).toBeInstanceOf(ConfigError);
          return (error as Error).message;
        },
      );
    const all = await told({ secrets: ['first', 'second'], database: wrong('third'), temporal: wrong('fourth') });
    for (const sentence of ['first', 'second', 'third', 'fourth']) expect(all).toContain(`\n  ${sentence}`);
    expect(await told({ secrets: [], database: down, temporal: wrong('alone') })).toContain('\n  alone');
    expect(await told({ secrets: ['alone'], database: down, temporal: down })).toContain('\n  alone');
  });
});

describe('what npm start makes for trying out', () => {
  it('is marked in every file, also where an earlier version had not, and once', async () => {
    const file = (...names: string[]) => join(dir, 'marked', ...names);
    const keys = await prepareKeys(file);
    const files = filesOf(keys);
    expect(files).toHaveLength(11);
    for (const each of files) expect(readFileSync(each, 'utf8')).toContain(developmentMark);
    const before = files.map((each) => readFileSync(each, 'utf8'));
    for (const each of files) writeFileSync(each, withoutMark(readFileSync(each, 'utf8')));
    await prepareKeys(file);
    expect(files.map((each) => withoutMark(readFileSync(each, 'utf8')))).toEqual(before.map(withoutMark));
    for (const each of files) expect(readFileSync(each, 'utf8')).toContain(developmentMark);
  });

  it('is marked in each key of a set: one that is rotated in is none of an installation either', async () => {
    const keysFile = join(dir, 'set.jwks.json');
    const publicKeyFile = join(dir, 'set-public.json');
    await initWebhookKeys({ keysFile, publicKeyFile });
    markDevelopment(keysFile);
    await initWebhookKeys({ keysFile, publicKeyFile, rotate: true });
    const marks = () =>
      (JSON.parse(readFileSync(keysFile, 'utf8')) as { keys: object[] }).keys.map((key) => developmentMark in key);
    expect(marks()).toEqual([false, true]);
    markDevelopment(keysFile);
    expect(marks()).toEqual([true, true]);
  });
});

const withoutMark = (text: string) =>
  text.startsWith('{')
    ? `${JSON.stringify(JSON.parse(text, (name, value) => (name === developmentMark ? undefined : value)))}\n`
    : `${text.trim().split(' ')[0]}\n`;

function filesOf({ coordinator, policy, signers, webhooks, tokensFile }: StackKeys): string[] {
  const ofSigners = Object.values(signers).flatMap(({ identityFile, kekFile }) => [identityFile, kekFile]);
  return [
    ...[coordinator.identityFile, policy.identityFile, webhooks.keysFile, webhooks.publicKeyFile, tokensFile],
    ...ofSigners,
  ];
}

describe('a process that is set to production', () => {
  let database: TestDatabase;
  let keys: { marked: StackKeys; unmarked: Pick<StackKeys, 'coordinator' | 'policy' | 'webhooks' | 'tokensFile'> };
  const children: ChildProcess[] = [];
  beforeAll(async () => {
    const own = (...names: string[]) => join(dir, 'own', ...names);
    const webhooks = { keysFile: own('webhooks.jwks.json'), publicKeyFile: own('webhooks-public.json') };
    await initWebhookKeys(webhooks);
    await initTokenKeys({ keysFile: own('tokens.jwks.json') });
    keys = {
      marked: await prepareKeys((...names) => join(dir, 'processes', ...names)),
      unmarked: {
        coordinator: await initSecrets({ kind: 'coordinator', dir: own() }),
        policy: await initSecrets({ kind: 'policy', dir: own() }),
        webhooks,
        tokensFile: own('tokens.jwks.json'),
      },
    };
  });
  beforeEach(async () => {
    database = await createTestDatabase();
    return async () => {
      await Promise.all(children.splice(0).map(end));
      await database.drop();
    };
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  const end = async (child: ChildProcess) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  const start = (program: string, env: NodeJS.ProcessEnv) => {
    const child = spawn(process.execPath, [fileURLToPath(new URL(`../../${program}`, import.meta.url))], {
      env: { PATH: process.env.PATH, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.push(child);
    const said = { output: '', errors: '' };
    child.stdout!.on('data', (part) => {
      said.output += part;
    });
    child.stderr!.on('data', (part) => {
      said.errors += part;
    });
    return { child, said, ended: once(child, 'close').then(([code]) => code as number) };
  };
  const settings = (
    made: Pick<StackKeys, 'coordinator' | 'policy' | 'webhooks' | 'tokensFile'>,
  ): NodeJS.ProcessEnv => ({
    PURSER_ENV: 'production',
    PURSER_CHAINS: 'eip155:8453',
    PURSER_RPC_EIP155_8453: `http://${nobody}`,
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: inject('stack').temporalAddress,
    PURSER_TOKEN_KEYS_FILE: made.tokensFile,
    PURSER_PUBLIC_URL: 'https://purser.example.com',
    PURSER_WEBHOOK_PUBLIC_KEY_FILE: made.webhooks.publicKeyFile,
    PURSER_WEBHOOK_KEYS_FILE: made.webhooks.keysFile,
    PURSER_POLICY_KEY_FILE: made.policy.identityFile,
    PURSER_COORDINATOR_KEY_FILE: made.coordinator.identityFile,
    PURSER_SIGNERS: JSON.stringify(signerEndpoints(keys.marked, [1, 1, 1])),
    PURSER_SMTP_URL: 'smtps://mail.example.com',
    PURSER_MAIL_FROM: 'purser@example.com',
  });
  const ofApi = ['PURSER_TOKEN_KEYS_FILE', 'PURSER_WEBHOOK_PUBLIC_KEY_FILE'];
  const ofWorker = ['PURSER_POLICY_KEY_FILE', 'PURSER_COORDINATOR_KEY_FILE', 'PURSER_WEBHOOK_KEYS_FILE'];

  it.each([
    ['the api', 'api/main.ts', ofApi],
    ['a worker', 'worker/main.ts', ofWorker],
  ])(
    'names, as %s, all secrets, the database and the Temporal that are of npm start, and ends',
    async (_who, program, names) => {
      const { ended, said } = start(program, { ...settings(keys.marked), PURSER_PORT: String(await freePort()) });
      expect(await ended).toBe(1);
      for (const name of names)
        expect(said.errors).toMatch(new RegExp(`^ {2}${name}: .* made by npm start .* refused in production`, 'm'));
      expect(said.errors).toMatch(/^ {2}DATABASE_URL leads to the database that npm start brings along/m);
      expect(said.errors).toMatch(/^ {2}TEMPORAL_ADDRESS leads to a development server/m);
      expect(said.errors.trim().split('\n')).toHaveLength(names.length + 3);
      expect(said.errors).not.toMatch(/\n\s+at /);
      expect(await environmentOf(database)).toBeUndefined();
    },
  );

  it.each(['wallet-signing', 'wallet', 'wallet-webhooks', 'wallet-chain'])(
    'names, as a worker of %s alone, what that queue needs',
    async (queue) => {
      const { DATABASE_URL, ...rest } = settings(keys.marked);
      const env = { ...rest, ...(queue !== 'wallet-signing' && { DATABASE_URL }) };
      const { ended, said } = start('worker/main.ts', { ...env, PURSER_QUEUES: queue });
      expect(await ended).toBe(1);
      expect(said.errors.includes('DATABASE_URL leads to')).toBe(queue !== 'wallet-signing');
      expect(said.errors).toContain('TEMPORAL_ADDRESS leads to');
    },
  );

  it('is no signer with an identity or a key that is of npm start, and names both', async () => {
    const signer = {
      ...{ PURSER_SIGNER_PARTY: '1', PURSER_SIGNER_PORT: '0', PURSER_SIGNER_DATA_DIR: join(dir, 'signer-data') },
      PURSER_SIGNER_KEK_FILE: keys.marked.signers[1].kekFile,
      PURSER_SIGNER_IDENTITY_FILE: keys.marked.signers[1].identityFile,
      PURSER_SIGNER_PEERS: JSON.stringify({ 2: keys.marked.signers[2].publicKey, 3: keys.marked.signers[3].publicKey }),
      PURSER_COORDINATOR_PUBLIC_KEY: keys.marked.coordinator.publicKey,
      PURSER_POLICY_PUBLIC_KEY: keys.marked.policy.publicKey,
    };
    const both = start('signer/main.ts', { ...signer, PURSER_ENV: 'production' });
    expect(await both.ended).toBe(1);
    expect(both.said.errors.trim()).toMatch(
      /^signer: PURSER_SIGNER_KEK_FILE and PURSER_SIGNER_IDENTITY_FILE: made by npm start .* refused in production/,
    );
    const unsaid = start('signer/main.ts', signer);
    expect(await unsaid.ended).toBe(1);
    const { PURSER_SIGNER_KEK_FILE, ...rest } = signer;
    const copied = start('signer/main.ts', {
      ...rest,
      PURSER_SIGNER_KEK: readFileSync(PURSER_SIGNER_KEK_FILE, 'utf8'),
    });
    expect(await copied.ended).toBe(1);
    expect(copied.said.errors).toMatch(/PURSER_SIGNER_KEK and PURSER_SIGNER_IDENTITY_FILE/);
    const trying = start('signer/main.ts', { ...signer, PURSER_ENV: 'sandbox' });
    await eventually(
      async () => trying.said.output,
      (text) => text.includes('signer is ready'),
      patiently,
    );
  });

  it('refuses, as the api, a Temporal that comes up later, as soon as it answers, and is not ready before', async () => {
    const temporal = await startOwnTemporal();
    process.kill(temporal.pid(), 'SIGKILL');
    const port = await freePort();
    const { child, said, ended } = start('api/main.ts', {
      ...settings(keys.unmarked),
      PURSER_PORT: String(port),
      DATABASE_URL: `postgres://purser_app@${nobody}/purser`,
      TEMPORAL_ADDRESS: temporal.address,
    });
    const url = `http://127.0.0.1:${port}`;
    await eventually(
      () => fetch(`${url}/healthz`),
      ({ ok }) => ok,
      patiently,
    );
    const ready = await fetch(`${url}/readyz`);
    expect(ready.status).toBe(503);
    expect(await ready.json()).toMatchObject({ checks: { installation: { ok: false, error: expect.any(String) } } });
    expect((await fetch(`${url}/api/v1/agents`)).status).toBe(503);
    expect(child.exitCode).toBeNull();
    try {
      await temporal.restart();
      expect(await ended).toBe(1);
      expect(said.errors).toContain('TEMPORAL_ADDRESS leads to a development server');
    } finally {
      await temporal.stop();
    }
  });

  it('serves, as the api, what is nobody else’s', async () => {
    await unmark(database);
    const port = await freePort();
    const { child } = start('api/main.ts', {
      ...settings(keys.unmarked),
      PURSER_PORT: String(port),
      TEMPORAL_ADDRESS: nobody,
    });
    const url = `http://127.0.0.1:${port}`;
    await eventually(
      () => fetch(`${url}/healthz`),
      ({ ok }) => ok,
      patiently,
    );
    expect((await fetch(`${url}/api/v1/agents`)).status).toBe(401);
    await eventually(
      async () => environmentOf(database),
      (environment) => environment === 'production',
      patiently,
    );
    expect(child.exitCode).toBeNull();

    const other = start('api/main.ts', {
      ...settings(keys.unmarked),
      ...{ PURSER_ENV: 'sandbox', PURSER_CHAINS: 'eip155:31337', PURSER_PORT: String(await freePort()) },
    });
    expect(await other.ended).toBe(1);
    expect(other.said.errors).toMatch(/DATABASE_URL leads to a production installation, and PURSER_ENV is sandbox/);
  });
});
