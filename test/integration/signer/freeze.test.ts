import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { generateKeyPair } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { FreezeState } from '../../../shared/domain/freeze.ts';
import { signFreezeOrder } from '../../../shared/freeze-order.ts';
import { createSignerTransport, type SignerPeer, type SignerTransport } from '../../../signer/call.ts';
import { createSignerClient, type SignerClient } from '../../../signer/client.ts';
import { coordinateSign, type SignRequest } from '../../../signer/coordinate-sign.ts';
import { parsePublicIdentity } from '../../../signer/identity.ts';
import { PARTIES, type Party } from '../../../signer/parties.ts';
import { bestOf } from '../../support/best-of.ts';
import { authorizationRequestFor, signRequestFor, type TestKey } from '../../support/payments.ts';
import { startSigners, type TestSigners } from '../../support/signers.ts';

// Keys are computed, here by three signers on one machine beside another test.
vi.setConfig({ testTimeout: 400_000, hookTimeout: 240_000 });

const run = promisify(execFile);
const pairs: readonly (readonly [Party, Party])[] = [
  [1, 2],
  [2, 3],
  [3, 1],
];

let signers: TestSigners;
let client: SignerClient;
let operator: SignerClient;
let transport: SignerTransport;
let key: TestKey;
const peers = new Map<Party, SignerPeer>();

beforeAll(async () => {
  signers = await startSigners();
  const { endpoints, coordinatorIdentity: identity, operatorIdentity } = signers;
  client = createSignerClient({ signers: endpoints, identity });
  operator = createSignerClient({ signers: endpoints, identity: operatorIdentity, role: 'operator' });
  transport = createSignerTransport({ identity, now: () => new Date() });
  for (const { party, url, publicKey } of endpoints)
    peers.set(party, { party, url, identity: await parsePublicIdentity(publicKey) });
  key = await client.generateKey({ keyId: 'ckey_main' });
});
afterAll(async () => {
  for (const each of [client, operator, transport]) each?.close();
  await signers?.stop();
});

let version = Date.now();
const nextOrder = (state: Partial<FreezeState> = {}, by = signers.policyKey) => {
  version += 1;
  return signFreezeOrder(by, {
    state: { version, installation: false, accounts: [], agents: [], ...state },
    now: new Date(),
  });
};
const tell = (order: string, by = client) => by.askEach({ path: '/v1/freeze', body: { order } });
const taken = () => PARTIES.map((party) => ({ party, version }));
/** A payment of agent_1 of acct_1. */
const pay = (accountId = 'acct_1', agentId = 'agent_1') =>
  signRequestFor(key, {
    policyKey: signers.policyKey,
    receipt: (valid) => ({ ...valid, account_id: accountId, agent_id: agentId }),
  });
const signBy = ([a, b]: readonly [Party, Party], request: SignRequest, by = transport) =>
  coordinateSign(by, {
    ...{ pair: [peers.get(a)!, peers.get(b)!], request, timeoutMs: 40_000 },
    signal: AbortSignal.timeout(120_000),
  });
const frozen = (what: RegExp) => ({ code: 'frozen', message: expect.stringMatching(what) });

beforeEach(async () => {
  expect(await tell(await nextOrder())).toEqual(taken());
});

describe('what the policy step has frozen, in three signer processes', () => {
  it('is signed for by no pair, transfers as little as authorisations, and all else is', async () => {
    expect(await tell(await nextOrder({ accounts: ['acct_1'], agents: ['agent_9'] }))).toEqual(taken());
    const authorization = await authorizationRequestFor(key, { policyKey: signers.policyKey });
    for (const pair of pairs) {
      await expect(signBy(pair, await pay())).rejects.toMatchObject(frozen(/account acct_1 is frozen$/));
      await expect(signBy(pair, await pay('acct_2', 'agent_9'))).rejects.toMatchObject(
        frozen(/agent agent_9 is frozen/),
      );
      await expect(signBy(pair, authorization)).rejects.toMatchObject(frozen(/account acct_1/));
    }
    await signBy([1, 2], await pay('acct_2', 'agent_2'));
    await expect(client.sign(authorization)).rejects.toMatchObject({ name: 'SignRefused', reason: 'frozen' });

    expect(await tell(await nextOrder({ installation: true }))).toEqual(taken());
    await expect(client.sign(await pay('acct_2', 'agent_2'))).rejects.toMatchObject({ reason: 'frozen' });
    // A key is made, and gets new shares, as before.
    await client.generateKey({ keyId: 'ckey_while_frozen' });
    await client.refreshKey({ keyId: 'ckey_main' });

    expect(await tell(await nextOrder())).toEqual(taken());
    for (const pair of pairs) await signBy(pair, authorization);
  });

  it('is refused from within a second on, under a load of signatures, and nothing that was not signed by then comes out', async () => {
    const froze = async () => {
      expect(await tell(await nextOrder())).toEqual(taken());
      return freezeUnderLoad();
    };
    expect(await bestOf(froze, { withinMs: 1_000 })).toBeLessThan(1_000);
  });

  /** @returns how long after it was told the last of them had confirmed it, or the last signature came */
  async function freezeUnderLoad(): Promise<number> {
    const ends: { atMs: number; outcome: string }[] = [];
    let isOver = false;
    const load = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        const outcome = await client.sign(await pay()).then(
          () => 'signed',
          (error: { reason?: string }) => error.reason ?? String(error),
        );
        ends.push({ atMs: performance.now(), outcome });
      }
    });
    await vi.waitFor(
      () => expect(ends.filter(({ outcome }) => outcome === 'signed').length).toBeGreaterThan(8),
      90_000,
    );
    const order = await nextOrder({ agents: ['agent_1'] });
    const toldAtMs = performance.now();
    expect(await tell(order)).toEqual(taken());
    const confirmedAtMs = performance.now();
    await vi.waitFor(
      () => expect(ends.filter(({ outcome }) => outcome === 'frozen').length).toBeGreaterThan(8),
      90_000,
    );
    isOver = true;
    await Promise.all(load);
    expect(new Set(ends.map(({ outcome }) => outcome))).toEqual(new Set(['signed', 'frozen']));
    // What was signed when they confirmed may still have been on its way to this process.
    const lastSigned = Math.max(...ends.filter(({ outcome }) => outcome === 'signed').map(({ atMs }) => atMs));
    return Math.max(confirmedAtMs, lastSigned) - toldAtMs;
  }

  it.each([
    ['before it gives its part away', 1, 0],
    ['before it completes the signature', 2, 1],
  ] as const)('stops a signature that is under way: %s', async (_, frozenParty, stepsBefore) => {
    const request = await pay();
    const order = await nextOrder({ accounts: ['acct_1'] });
    let steps = 0;
    const freezing: SignerTransport = {
      ...transport,
      async call(peer, p) {
        if (p.path === '/v1/sign/step') {
          if (steps === stepsBefore) {
            expect(peer.party).toBe(frozenParty);
            await transport.call(peer, {
              path: '/v1/freeze',
              session: 'f'.repeat(64),
              body: { order },
              timeoutMs: 40_000,
            });
          }
          steps += 1;
        }
        return transport.call(peer, p);
      },
    };
    await expect(signBy([1, 2], request, freezing)).rejects.toMatchObject(frozen(/account acct_1/));
    expect(await tell(await nextOrder())).toEqual(taken());
    // Nothing is stuck: the same payment goes on at its nonce.
    await signBy([2, 3], request);
  });

  it('leaves what was signed before to be given again, by whoever of the three has it', async () => {
    const request = await pay();
    // Signer 1 never hears what came out, signer 3 took no part.
    const deaf: SignerTransport = {
      ...transport,
      call: (peer, p) => (p.path === '/v1/sign/learn' ? Promise.reject(new Error('lost')) : transport.call(peer, p)),
    };
    const { signature } = await signBy([1, 2], request, deaf);
    expect(await tell(await nextOrder({ installation: true }))).toEqual(taken());
    for (let turn = 0; turn < 3; turn += 1) expect((await client.sign(request)).signature).toBe(signature);
    await expect(client.sign(await pay())).rejects.toMatchObject({ reason: 'frozen' });
  });

  it('is known to a signer that was killed right after it had confirmed', async () => {
    expect(await tell(await nextOrder({ accounts: ['acct_1'] }))).toEqual(taken());
    await Promise.all(PARTIES.map((party) => signers.kill(party)));
    await Promise.all(PARTIES.map((party) => signers.restart(party)));
    for (const pair of pairs) await expect(signBy(pair, await pay())).rejects.toMatchObject(frozen(/account acct_1/));
    const [status] = await client.status();
    expect(status).toMatchObject({ frozen: { version, installation: false, accounts: 1, agents: 0, operator: null } });
  });

  it('is not lifted by an older order that is brought again, nor by one that a coordinator or an operator made', async () => {
    const old = await nextOrder();
    expect(await tell(old)).toEqual(taken());
    const freeze = await nextOrder({ accounts: ['acct_1'] });
    expect(await tell(freeze)).toEqual(taken());
    // Each is told which version counts.
    for (const by of [client, operator]) expect(await tell(old, by)).toEqual(taken());
    const { privateKey: stranger } = await generateKeyPair('EdDSA');
    for (const forger of [stranger, signers.coordinatorIdentity.signingKey, signers.operatorIdentity.signingKey]) {
      for (const answer of await tell(await nextOrder({}, forger)))
        expect(answer).toMatchObject({ error: expect.stringContaining('not signed by the policy key') });
    }
    await expect(client.sign(await pay())).rejects.toMatchObject({ reason: 'frozen' });
  });

  it('stops nothing while one signer alone was told: two that know of nothing sign', async () => {
    const order = await nextOrder({ installation: true });
    await transport.call(peers.get(1)!, {
      path: '/v1/freeze',
      session: 'e'.repeat(64),
      body: { order },
      timeoutMs: 40_000,
    });
    await client.sign(await pay());
    await expect(signBy([1, 2], await pay())).rejects.toMatchObject(frozen(/installation/));
    await expect(signBy([2, 1], await pay())).rejects.toMatchObject(frozen(/installation/));
  });
});

describe('a freeze by the operator, at the signers themselves', () => {
  const cli = (...args: string[]) =>
    run(process.execPath, ['signer/cli/main.ts', ...args, '--json'], {
      env: {
        PATH: process.env.PATH,
        PURSER_SIGNERS: JSON.stringify(signers.endpoints),
        PURSER_OPERATOR_KEY_FILE: signers.operatorIdentityFile,
      },
    }).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      (error: { code: number; stdout: string; stderr: string }) => error,
    );

  it('stops everything whatever the policy step says, survives a kill, and is lifted by the operator alone', async () => {
    const request = await pay();
    const froze = await cli('freeze', '--reason', 'the worker was taken over');
    expect({ code: froze.code, ...JSON.parse(froze.stdout) }).toMatchObject({
      ...{ code: 0, frozen: true, reason: 'the worker was taken over' },
      signers: PARTIES.map((party) => ({ party })),
    });
    const refused = {
      reason: 'frozen',
      message: expect.stringMatching(/frozen by its operator \(the worker was taken/),
    };
    await expect(client.sign(request)).rejects.toMatchObject(refused);
    // Neither by a fresh word of the policy step, nor by a coordinator that asks for what is the operator's.
    expect(await tell(await nextOrder())).toEqual(taken());
    for (const answer of await client.askEach({ path: '/v1/operator-freeze', body: { reason: null } }))
      expect(answer).toMatchObject({ error: expect.stringContaining('is for operator only') });
    await signers.kill(2);
    await signers.restart(2);
    for (const pair of pairs) await expect(signBy(pair, request)).rejects.toMatchObject(frozen(/by its operator/));
    const status = await cli('status');
    for (const signer of JSON.parse(status.stdout).signers)
      expect(signer.frozen).toMatchObject({ operator: { reason: 'the worker was taken over' } });

    expect(JSON.parse((await cli('unfreeze')).stdout)).toMatchObject({ frozen: false });
    await client.sign(request);
  });

  it('says why the command is wrong, and who did not take it', async () => {
    expect(await cli('freeze')).toMatchObject({ code: 2, stderr: expect.stringContaining('--reason must say why') });
    expect(await cli('freeze', '--reason', ' ')).toMatchObject({ code: 2 });
    await signers.kill(3);
    const partly = await cli('freeze', '--reason', 'test');
    expect(partly.code).toBe(1);
    expect(partly.stderr).toMatch(/signer 3 did not take it/);
    expect(partly.stderr).not.toMatch(/payments can still be signed/);
    await signers.restart(3);
    // The third refuses nothing, and cannot sign alone.
    await expect(client.sign(await pay())).rejects.toMatchObject({ reason: 'frozen' });
    await cli('unfreeze');
    await client.sign(await pay());
  });
});
