import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../support/client.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';

const chain = 'eip155:31337';
const admin = fileURLToPath(new URL('../../api/admin.ts', import.meta.url));
interface Check {
  readonly check: string;
  readonly status: string;
  readonly detail: string;
}

let stack: OwnStack;
beforeAll(async () => {
  stack = await startOwnStack();
});
afterAll(() => stack?.stop());

/** `npm run admin -- doctor …` with the settings of the stack. */
function doctor(env: Record<string, string> = {}, ...args: string[]) {
  const settings = {
    PURSER_ENV: 'sandbox',
    DATABASE_URL: stack.databaseUrl,
    TEMPORAL_ADDRESS: stack.temporalAddress,
    PURSER_CHAINS: chain,
    PURSER_RPC_EIP155_31337: stack.rpcUrl,
    PURSER_EXTRA_TOKENS: `${chain}/erc20:${stack.usdcAddress.toLowerCase()}=USDC/6`,
    ...env,
  };
  const { promise, resolve } = Promise.withResolvers<{ code: number; out: string; err: string }>();
  execFile(
    process.execPath,
    [admin, 'doctor', ...args],
    { env: { PATH: process.env.PATH, ...settings } },
    (error, out, err) => resolve({ code: error ? Number(error.code) : 0, out, err }),
  );
  return promise;
}
async function checks(env: Record<string, string> = {}) {
  const { code, out } = await doctor(env, '--json');
  const { ok, checks } = JSON.parse(out) as { ok: boolean; checks: Check[] };
  expect(ok).toBe(code === 0);
  return { code, wrong: checks.filter(({ status }) => status === 'wrong'), checks };
}

/** Looks again while something did not answer the command in its time, as on a busy machine. */
const seen = (isRight: (found: Awaited<ReturnType<typeof checks>>) => boolean) =>
  eventually(checks, isRight, { timeoutMs: 180_000 });

it('finds nothing wrong with an installation that works, and says what it could not look at', async () => {
  const { code, checks: found, wrong } = await seen((each) => each.wrong.length === 0);
  expect({ code, wrong }).toEqual({ code: 0, wrong: [] });
  const fine = found.filter(({ status }) => status === 'ok').map(({ check }) => check);
  expect(fine).toEqual(
    expect.arrayContaining([
      ...['database', 'schema', 'database role', 'clock of the database', 'Temporal', 'Temporal namespace'],
      ...['search attributes', 'schedules', 'signers', 'clock of Temporal'],
      ...['wallet', 'wallet-signing', 'wallet-chain', 'wallet-webhooks', 'wallet-deliveries'].map(
        (queue) => `workers of ${queue}`,
      ),
    ]),
  );
  expect(found.find(({ check }) => check.startsWith('node '))?.detail).toMatch(/decimals of 1 tokens agree/);
  const lines = await eventually(doctor, ({ out }) => /^✓ signers: 3 answer/m.test(out), { timeoutMs: 180_000 });
  expect(lines.out).toMatch(/^– mail server: not checked: set PURSER_SMTP_URL$/m);
  expect(lines.err).toMatch(/^Looks at everything/);
});

it.each<[string, (stack: OwnStack) => Record<string, string>, RegExp]>([
  [
    'decimals that the token does not have',
    ({ usdcAddress }) => ({ PURSER_EXTRA_TOKENS: `${chain}/erc20:${usdcAddress.toLowerCase()}=USDC/18` }),
    /has 6 decimals there, and 18 here/,
  ],
  [
    'a node of another chain',
    () => ({ PURSER_CHAINS: 'eip155:84532', PURSER_RPC_EIP155_31337: '', PURSER_EXTRA_TOKENS: '' }),
    /./,
  ],
  ['a misspelt variable', () => ({ PURSER_RPCS: 'hunter2' }), /PURSER_RPCS is no variable/],
  ['a namespace that is not there', () => ({ TEMPORAL_NAMESPACE: 'nowhere' }), /nowhere/],
  ['a mail server that is away', () => ({ PURSER_SMTP_URL: 'smtp://a:hunter2@127.0.0.1:1' }), /ECONNREFUSED/],
  ['an identity provider that is away', () => ({ PURSER_OIDC_ISSUER: 'http://127.0.0.1:2' }), /fetch failed/],
])('names %s, with exit status 1, and no secret', async (_, env, words) => {
  const settings = env(stack);
  if (settings.PURSER_CHAINS) settings.PURSER_RPC_EIP155_84532 = stack.rpcUrl;
  const { code, wrong } = await checks(settings);
  expect(code).toBe(1);
  const said = wrong.map(({ detail }) => detail).join('\n');
  expect(said).toMatch(words);
  if (settings.PURSER_CHAINS) expect(said).toContain('it is of chain eip155:31337');
  expect(said).not.toContain('hunter2');
});

it('names a signer that is away', async () => {
  await stack.halt('signer-2');
  const { code, wrong } = await seen((each) => each.wrong.map(({ check }) => check).join() === 'signers');
  expect(code).toBe(1);
  expect(wrong[0]!.detail).toContain('signer 2: ');
  await stack.start('signer-2');
});
