import { execFile, execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createPublicClient, http, parseEther } from 'viem';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestClient, eventually } from '../support/client.ts';
import { type DevStack, nothingLeft, npmStart, processesOf } from '../support/dev-stack.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const STOP_TIMEOUT_MS = 120_000;
const LONGEST_SECOND_START_S = 15;
/** Of processes that have ended already, or are about to: far less than what is still at work takes. */
const goneWithinMs = 10_000;
const soonMs = 180_000;

describe('npm start in a fresh clone', () => {
  let dir: string;
  let clone: string;
  let home: string;
  let first: { apiKey: string; agentId: string; address: `0x${string}` };

  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'purser-start-'));
    chmodSync(dir, 0o711);
    clone = join(dir, 'purser');
    home = join(dir, 'home');
    execFileSync('git', ['clone', '--quiet', root, clone]);
    // The packages are the same; installing them again would take a minute.
    symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
  });
  afterAll(async () => {
    for (const { pid } of processesOf(home)) process.kill(pid, 'SIGKILL');
    await nothingLeft(home, { timeoutMs: STOP_TIMEOUT_MS });
    rmSync(dir, { recursive: true, force: true });
  });

  const start = (o: { args?: string[]; env?: NodeJS.ProcessEnv } = {}) =>
    npmStart({ cwd: clone, home, ...o, env: { PURSER_CACHE_DIR: join(root, '.cache'), ...o.env } });
  /** Runs the line that the screen shows, in a shell, as a reader does. */
  const paste = <T>(stack: DevStack, endpoint: string) => {
    const line = stack
      .output()
      .split('\n')
      .find((text) => text.includes(`curl -s ${endpoint} `));
    return JSON.parse(execFileSync('bash', ['-c', line ?? 'false'], { encoding: 'utf8' })) as T;
  };
  /** What a command of the package says. */
  const run = async (...args: string[]) => {
    const env = { ...process.env, PURSER_HOME: home };
    return (await promisify(execFile)('npm', ['run', '--silent', ...args], { cwd: clone, env })).stdout;
  };
  /** The command that the screen shows. */
  const signInByCommand = async (email: string) => {
    return JSON.parse(await run('sign-in', '--', email, '--json')) as { access_token: string; user: { email: string } };
  };
  const mails = async (stack: DevStack) => {
    const answer = await fetch(`${stack.facts().mail_url}/api/mails`);
    return ((await answer.json()) as { data: { to: string; links: string[] }[] }).data;
  };
  /** A payment above a threshold, and a person who is asked by mail and agrees; the person signs in by the screen's command. */
  const approvePayment = async (stack: DevStack) => {
    const { base_url: baseUrl, api_key: apiKey, chain } = stack.facts();
    const client = createTestClient({ baseUrl, apiKey });
    const agentId = (await client.post('/agents', { agent_name: 'treasury', chain })).body.id;
    const approvers = ['owner@example.com'];
    await client.post('/policies', {
      agent_id: agentId,
      type: 'human_approval',
      rules: { threshold: '100', approvers },
    });
    const sent = await client.post('/transactions', {
      ...{ agent_id: agentId, direction: 'outbound', type: 'transfer', chain, token: 'USDC', amount: '150' },
      to_address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
    });
    await eventually(
      () => client.get(`/transactions/${sent.body.id}`),
      ({ body }) => body.status === 'pending' && body.status_detail === 'awaiting_approval',
      { timeoutMs: soonMs },
    );
    const inbox = await eventually(
      () => mails(stack),
      ({ length }) => length > 0,
      { timeoutMs: soonMs },
    );
    const link = expect.stringMatching(new RegExp(`^${baseUrl}/approve/[\\w-]{43}$`));
    expect(inbox).toEqual([expect.objectContaining({ to: 'owner@example.com', links: [link] })]);
    expect((await fetch(inbox[0]!.links[0]!)).status).toBe(200);

    const { access_token: token } = await signInByCommand('owner@example.com');
    const { id } = (await client.get(`/transactions/${sent.body.id}`)).body.approval;
    const answer = await fetch(`${baseUrl}/api/v1/approvals/${id}/approve`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}` },
    });
    expect(await answer.json()).toMatchObject({ id, status: 'approved' });
    await eventually(
      () => client.get(`/transactions/${sent.body.id}`),
      ({ body }) => body.status === 'confirmed',
      { timeoutMs: soonMs },
    );
  };
  const balance = (stack: DevStack, address: `0x${string}`) =>
    createPublicClient({ transport: http(stack.facts().rpc_url) }).getBalance({ address });
  /** Seconds that each start after the first took. */
  const laterStarts: number[] = [];
  const startSeconds = (stack: DevStack) => Number(/is running \(([\d.]+) s\)/.exec(stack.output())?.[1]);
  const find = (pattern: RegExp) => processesOf(home).filter(({ command }) => pattern.test(command));

  it('brings everything up, says where it is, and its example works', async () => {
    const stack = start();
    await stack.says('Ctrl-C stops everything');
    const facts = stack.facts();
    expect(facts).toEqual({
      base_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      api_key: expect.stringMatching(/^purser_test_/),
      account_id: expect.stringMatching(/^acct_/),
      temporal_ui: expect.stringMatching(/^http:/),
      temporal_address: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      rpc_url: expect.stringMatching(/^http:/),
      chain: 'eip155:31337',
      usdc_address: expect.stringMatching(/^0x[0-9a-fA-F]{40}$/),
      database_url: expect.stringMatching(/^postgresql:\/\/purser_app:/),
      signer_urls: [expect.stringMatching(/^http:/), expect.stringMatching(/^http:/), expect.stringMatching(/^http:/)],
      mail_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      smtp_url: expect.stringMatching(/^smtp:\/\/127\.0\.0\.1:\d+$/),
      provider_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    });
    await stack.says(`Mail           ${facts.mail_url}  (`);
    expect(statSync(join(home, 'dev.json')).mode & 0o777).toBe(0o600);
    for (const url of [facts.temporal_ui, facts.mail_url, `${facts.base_url}/docs`, `${facts.base_url}/readyz`]) {
      expect((await fetch(url)).status, url).toBe(200);
    }
    const agent = paste<{ id: string; wallet: { address: `0x${string}` } }>(stack, `${facts.base_url}/api/v1/agents`);
    first = { apiKey: facts.api_key, agentId: agent.id, address: agent.wallet.address };
    expect(await balance(stack, first.address)).toBe(parseEther('10'));

    await approvePayment(stack);

    await stack.says('npm run --silent sign-in -- owner@example.com --json');
    await stack.says(`${facts.base_url}/auth/oidc/redirect  (`);
    const approver = await signInByCommand('approver@example.com');
    expect(approver.user.email).toBe('approver@example.com');
    const agents = await fetch(`${facts.base_url}/api/v1/agents`, {
      headers: { Authorization: `Bearer ${approver.access_token}` },
    });
    expect(await agents.json()).toMatchObject({ total: 2 });

    const demo = await run('demo');
    expect(demo.match(/^ {2}confirmed after/gm)).toHaveLength(2);
    expect(demo).toContain('The agent tries to be rid of its limit: 403 insufficient_permissions');
    expect(demo).not.toMatch(/purser_test_\w{5}/);

    const second = start();
    expect(await second.exitCode).toBe(1);
    await second.says(`Purser runs already with the data in ${home}`);
    const reset = start({ args: ['--reset'] });
    expect(await reset.exitCode).toBe(1);
    await reset.says('Purser runs already');

    expect(find(/./).length).toBeGreaterThan(8);
    stack.signalJob('SIGINT');
    // npm, too, is there until the end: the shell's prompt comes back when everything is down.
    await stack.exitCode;
    await nothingLeft(home, { timeoutMs: goneWithinMs });
    await stack.says('Everything is stopped.');
  });

  it('keeps the data on a second start, and restarts what dies', async () => {
    const stack = start();
    await stack.says('Ctrl-C stops everything');
    laterStarts.push(startSeconds(stack));
    expect(stack.facts().api_key).toBe(first.apiKey);
    expect(await balance(stack, first.address)).toBe(parseEther('10'));
    const headers = { 'X-API-Key': first.apiKey };
    const answer = await fetch(`${stack.facts().base_url}/api/v1/agents/${first.agentId}`, { headers });
    expect(answer.status).toBe(200);
    expect(await mails(stack)).toHaveLength(1);
    expect((await signInByCommand('owner@example.com')).user.email).toBe('owner@example.com');

    for (const [pattern, name] of [
      [/worker\/main\.ts/, 'The worker'],
      [/bin\/postgres -D/, 'Postgres'],
    ] as const) {
      process.kill(find(pattern)[0]!.pid, 'SIGKILL');
      await stack.says(`${name} stopped unexpectedly (SIGKILL)`);
      await stack.says(`${name} runs again`);
    }
    stack.signalJob('SIGTERM');
    // npm itself is gone at once; the worker may still let a key generation end, for up to 30 s.
    await nothingLeft(home, { timeoutMs: STOP_TIMEOUT_MS });
    await stack.says('Everything is stopped.');
  });

  it.each([
    ['the stack itself', /dev\/start\.ts/],
    ['the command that started it', /dev\/bootstrap\.mjs/],
    ['npm', /^npm start/],
  ])('leaves no orphan after kill -9 of %s', async (_, pattern) => {
    const stack = start();
    await stack.says('Ctrl-C stops everything');
    laterStarts.push(startSeconds(stack));
    const victims = find(pattern);
    expect(victims.length).toBeGreaterThan(0);
    // The script's command line contains the other's name; the youngest process is the one that is meant.
    process.kill(pattern.test('npm start') ? stack.pid : Math.max(...victims.map(({ pid }) => pid)), 'SIGKILL');
    await stack.exitCode;
    await nothingLeft(home, { timeoutMs: STOP_TIMEOUT_MS });
  });

  it('starts quickly again: at best, for others may use the machine', () => {
    expect(Math.min(...laterStarts)).toBeLessThan(LONGEST_SECOND_START_S);
  });

  it('stops in the middle of a start without leaving anything', async () => {
    const stack = start();
    await stack.says('Postgres');
    stack.signalJob('SIGINT');
    await stack.exitCode;
    await nothingLeft(home, { timeoutMs: goneWithinMs });
  });

  it('names a busy port, its purpose and the variable', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const stack = start({ env: { PURSER_RPC_PORT: String(port) } });
    expect(await stack.exitCode).toBe(1);
    await stack.says(
      `Port ${port} (the local chain's RPC) is in use by another program; stop that program or set PURSER_RPC_PORT to another port (0 picks a free one).`,
    );
    server.close();
    await nothingLeft(home, { timeoutMs: goneWithinMs });
  });

  it('begins anew with --reset', async () => {
    const stack = start({ args: ['--reset'] });
    await stack.says('Ctrl-C stops everything');
    expect(stack.facts().api_key).not.toBe(first.apiKey);
    expect(await balance(stack, first.address)).toBe(0n);
    expect(await mails(stack)).toEqual([]);
    stack.signalJob('SIGINT');
    await stack.exitCode;
    await nothingLeft(home, { timeoutMs: goneWithinMs });
  });
});
