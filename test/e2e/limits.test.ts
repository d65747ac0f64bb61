import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Address } from 'viem';
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestClient, eventually, type TestClient } from '../support/client.ts';
import { type OwnStack, startOwnStack } from '../support/own-stack.ts';

const chain = 'eip155:31337';
const endsWithinMs = 180_000;
const cli = fileURLToPath(new URL('../../signer/cli/main.ts', import.meta.url));

let stack: OwnStack;
let client: TestClient;
let ownerFile: string;
let token: string;
let usdc: string[];

beforeAll(async () => {
  stack = await startOwnStack();
  client = createTestClient(stack);
  ownerFile = `${stack.home}/keys/owner.json`;
  token = `${chain}/${stack.usdcAddress.toLowerCase()}`;
  usdc = ['--asset', `${chain}/${stack.usdcAddress}`, '--decimals', '6'];
});
afterAll(() => stack?.stop());

/** `npm run signers -- …` */
function signers(...args: string[]): Promise<{ code: number; out: Record<string, unknown>; err: string }> {
  const { promise, resolve } = Promise.withResolvers<{ code: number; out: Record<string, unknown>; err: string }>();
  const env = { ...process.env, PURSER_HOME: stack.home, PURSER_SIGNERS: '' };
  execFile(process.execPath, [cli, ...args, '--json'], { env }, (error, stdout, stderr) => {
    resolve({ code: error ? Number(error.code) : 0, out: stdout ? JSON.parse(stdout) : {}, err: stderr });
  });
  return promise;
}
const asOwner = (...args: string[]) => signers(...args, '--owner-key-file', ownerFile);

async function newAgent(): Promise<{ id: string; wallet: { address: Address } }> {
  return (await client.post('/agents', { agent_name: `agent ${Math.random()}`, chain })).body;
}
const stranger = () => privateKeyToAddress(generatePrivateKey());
async function send(agentId: string, amount: string, symbol = 'USDC'): Promise<string> {
  const payment = { agent_id: agentId, direction: 'outbound', type: 'transfer', chain };
  const sent = await client.post('/transactions', { ...payment, to_address: stranger(), amount, token: symbol });
  expect(sent.status).toBe(200);
  return sent.body.id;
}
async function ended(id: string, withinMs = endsWithinMs) {
  const done = await eventually(
    () => client.get(`/transactions/${id}`),
    ({ body }) => body.status !== 'pending',
    { timeoutMs: withinMs },
  );
  return done.body;
}
const pay = async (...payment: Parameters<typeof send>) => ended(await send(...payment));

describe('an owner of an account', () => {
  it('limits a wallet inside the signers by one command, whatever the policies allow', async () => {
    const [agent, other] = [await newAgent(), await newAgent()];
    const { address } = agent.wallet;
    expect(await pay(agent.id, '70')).toMatchObject({ status: 'confirmed' });

    const set = await asOwner('limits', 'set', '--wallet', address, ...usdc, '--payment', '50', '--day', '100.5');
    expect(set).toMatchObject({ code: 0, err: '' });
    expect(set.out).toMatchObject({
      wallet: address.toLowerCase(),
      version: 1,
      limits: [{ asset: token, payment: '50000000 minor units', day: '100500000 minor units' }],
      signers: [{ party: 1 }, { party: 2 }, { party: 3 }],
    });

    const tooMuch = await pay(agent.id, '50.000001');
    expect(tooMuch).toMatchObject({ status: 'failed', failure_code: 'signing_failed' });
    expect(tooMuch.failure_message).toContain(
      `wallet ${address.toLowerCase()} may pay 50000000 minor units of ${token}`,
    );
    expect(tooMuch.failure_message).toContain('the limits that the account’s owner set inside the signers (version 1)');
    // The 70 of before count as well.
    expect(await pay(agent.id, '30.500001')).toMatchObject({ status: 'failed', failure_code: 'signing_failed' });
    expect(await pay(agent.id, '30.5')).toMatchObject({ status: 'confirmed' });
    const usedUp = await pay(agent.id, '0.000001');
    expect(usedUp.failure_message).toContain('100500000 were signed away in the last 24 hours');
    // No other asset, and no other wallet.
    expect((await pay(agent.id, '0.001', 'ETH')).failure_message).toContain('do not list it');
    expect(await pay(other.id, '200')).toMatchObject({ status: 'confirmed' });

    const shown = await signers('limits', 'show');
    expect(shown).toMatchObject({ code: 0, out: { keys: [{ agree: true, limits: [{ version: 1 }] }] } });
    expect(await asOwner('limits', 'off', '--wallet', address)).toMatchObject({ code: 0, out: { limits: 'off' } });
    expect(await pay(agent.id, '200')).toMatchObject({ status: 'confirmed' });
  });

  it('keeps his limits at two signers while the third is away, which learns them with its next signature', async () => {
    const agent = await newAgent();
    const { address } = agent.wallet;
    await stack.halt('signer-3');
    const set = await asOwner('limits', 'set', '--wallet', address, ...usdc, '--day', '10');
    expect(set).toMatchObject({
      code: 1,
      out: { signers: [{ party: 1 }, { party: 2 }, { party: 3, error: expect.any(String) }] },
    });
    expect(set.err).toContain('signer 3 did not take it');
    await stack.start('signer-3');
    await stack.halt('signer-1');
    expect(await pay(agent.id, '10')).toMatchObject({ status: 'confirmed' });
    await stack.start('signer-1');
    await stack.halt('signer-2');
    // Signer 3 knows what signer 1 does not: the two sign nothing. One refusal alone is not believed: it waits for another.
    const refused = await send(agent.id, '0.000001');
    await expect(ended(refused, 6_000)).rejects.toThrow(/"status":"pending"/);
    await stack.start('signer-2');
    expect((await ended(refused)).failure_message).toContain('10000000 were signed away');
    expect((await signers('limits', 'show')).out).toMatchObject({ keys: [{ agree: true }] });
  });

  it('is told what is wrong with a command', async () => {
    const { address } = (await newAgent()).wallet;
    const wallet = ['--wallet', address];
    const noDecimals = ['--asset', `${chain}/${stack.usdcAddress}`, '--day', '1'];
    expect(await asOwner('limits', 'set', ...wallet, ...noDecimals)).toMatchObject({
      code: 2,
      err: expect.stringContaining('--decimals is missing'),
    });
    expect(await asOwner('limits', 'off', ...wallet, '--key', 'ckey_none')).toMatchObject({
      code: 1,
      err: expect.stringContaining('has no key ckey_none'),
    });
    expect(await signers('limits', 'off', ...wallet)).toMatchObject({
      code: 2,
      err: expect.stringContaining('--owner-key-file'),
    });
  });

  it('hands over to another key, which alone counts from then on', async () => {
    const { address } = (await newAgent()).wallet;
    const next = `${stack.home}/keys/next-owner.json`;
    const made = await signers('owner-key', 'new', '--file', next);
    expect(await signers('owner-key', 'new', '--file', next)).toMatchObject({ code: 1 });
    expect(await signers('limits', 'off', '--wallet', address, '--owner-key-file', next)).toMatchObject({
      code: 2,
      err: expect.stringContaining('no key has the owner’s key'),
    });
    await asOwner('limits', 'set', '--wallet', address, ...usdc, '--day', '7');
    const replaced = await asOwner('owner-key', 'replace', '--new-owner-key-file', next);
    expect(replaced).toMatchObject({ code: 0, out: { owner_key: made.out.owner_key } });
    const key = replaced.out.key_id as string;
    const byOld = await asOwner('limits', 'off', '--wallet', address, '--key', key);
    expect(byOld).toMatchObject({ code: 1, err: expect.stringContaining('not signed by the owner’s key') });
    const byNew = await signers('limits', 'set', '--owner-key-file', next, '--wallet', address, ...usdc, '--day', '9');
    expect(byNew).toMatchObject({ code: 0, out: { version: 3 } });
    const registered = await signers('owner-key', 'register', '--key', key, '--owner-key', 'o'.repeat(43));
    expect(registered).toMatchObject({
      code: 1,
      err: expect.stringContaining('only a document signed by it replaces'),
    });
  });
});
