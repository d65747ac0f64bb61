import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSignerClient, type SignerClient, type SignerClientOptions } from '../../signer/client.ts';
import type { SignRequest } from '../../signer/coordinate-sign.ts';
import { SignerUnavailable } from '../../signer/errors.ts';
import { othersThan, PARTIES, type Party } from '../../signer/parties.ts';
import { eventually } from '../support/client.ts';
import { type Link, type LinkState, startLink } from '../support/link.ts';
import { startSigners, type TestSigners } from '../support/signers.ts';
import {
  atOnceMs,
  boundMs,
  differentPayments,
  percentile,
  type TimedSignatures,
  timeSignatures,
} from '../support/timed-signatures.ts';

/** How long something takes is looked at again where others used the machine. */
const retry = 3;
const soon = { timeout: 60_000 };

let signers: TestSigners;
let nextPayment: () => Promise<SignRequest>;
const clients: SignerClient[] = [];

beforeAll(async () => {
  signers = await startSigners();
  const { client } = newClient();
  // On a busy machine not within the time that one try has.
  const key = await eventually(() => client.generateKey({ keyId: 'ckey_main' }), Boolean, { timeoutMs: 400_000 });
  nextPayment = differentPayments({ policyKey: signers.policyKey, key });
});
afterAll(async () => {
  for (const client of clients) client.close();
  await signers?.stop();
});

interface Signing {
  client: SignerClient;
  sign: TimedSignatures;
}

function newClient(o: Partial<SignerClientOptions> = {}): Signing {
  const client = createSignerClient({ signers: signers.endpoints, identity: signers.coordinatorIdentity, ...o });
  clients.push(client);
  return { client, sign: timeSignatures({ client, nextPayment: () => nextPayment() }) };
}

/** Nothing tells the coordinator that a signer is back: it finds out by itself, beside its work. */
async function signUntilAllAreUsed({ sign }: Signing, bound: number): Promise<void> {
  for (const away of PARTIES) {
    await expect
      .poll(async () => {
        signers.pause(away);
        const took = await sign.one().finally(() => signers.resume(away));
        return took;
      }, soon)
      .toBeLessThan(bound);
  }
}

describe('a signer that freezes', () => {
  it.each(PARTIES)(
    'costs one signature a second, the later ones nothing, and is used again when back: %i',
    { retry },
    async (frozen) => {
      const { client, sign } = newClient();
      const usual = await sign.inTurn(3);
      const [bound, atOnce] = [boundMs(usual), atOnceMs(usual)];
      signers.pause(frozen);
      const took = await sign.inTurn(9).finally(() => signers.resume(frozen));
      expect(Math.max(...took)).toBeLessThan(bound);
      expect(took.filter((ms) => ms > atOnce).length).toBeLessThanOrEqual(1);

      const [missing] = othersThan(frozen);
      await expect
        .poll(() => sign.one().then(() => client.health()), soon)
        .toMatchObject(PARTIES.map(() => ({ ok: true })));
      signers.pause(missing!);
      expect(await sign.one().finally(() => signers.resume(missing!))).toBeLessThan(bound);
    },
  );

  it('keeps no signature waiting longer, also with more at once than are begun at once', { retry }, async () => {
    const signing = newClient();
    const bound = boundMs(await signing.sign.inTurn(3));
    const width = 16;
    let frozen: Party | undefined;
    const freeze = (done: number) => {
      if (done !== width) return;
      frozen = 2;
      signers.pause(2);
    };
    const total = 5 * width;
    const took = await signing.sign.atOnce({ width, total, onDone: freeze }).finally(() => signers.resume(2));
    expect(frozen).toBe(2);
    expect(took).toHaveLength(total);
    expect(percentile(took, 95)).toBeLessThan(bound);
    await signUntilAllAreUsed(signing, bound);
  });

  it('and a second one: an answer in bounded time that says who is missing, and signatures once one is back', {
    retry,
  }, async () => {
    const { sign } = newClient({ signCallTimeoutMs: 1_500 });
    const bound = boundMs(await sign.inTurn(3));
    for (const party of [1, 3] as const) signers.pause(party);
    try {
      const since = performance.now();
      const failing = sign.one();
      await expect(failing).rejects.toThrow(SignerUnavailable);
      await expect(failing).rejects.toThrow(/^no two signers could sign: .*no answer in time/);
      expect(performance.now() - since).toBeLessThan(3 * 1_500 + 1_000);
      signers.resume(3);
      expect(await sign.one()).toBeLessThan(bound);
    } finally {
      for (const party of [1, 3] as const) signers.resume(party);
    }
  });
});

describe('a link', () => {
  let links: Link[];
  beforeAll(async () => {
    links = await Promise.all(signers.endpoints.map(({ url }) => startLink(url)));
  });
  afterAll(() => Promise.all(links?.map((link) => link.stop()) ?? []));
  const linkedClient = () =>
    newClient({ signers: signers.endpoints.map((endpoint, index) => ({ ...endpoint, url: links[index]!.url })) });

  it.each<[string, LinkState]>([
    ['late by 300 ms', { kind: 'slow', delayMs: 300 }],
    ['late by 3 s', { kind: 'slow', delayMs: 3_000 }],
    ['that loses everything', { kind: 'lossy' }],
    ['that is cut', { kind: 'cut' }],
  ])('%s keeps no signature waiting for 2 s, and is used again when good', { retry }, async (_, state) => {
    const { client, sign } = linkedClient();
    const usual = await sign.inTurn(3);
    const [bound, atOnce] = [boundMs(usual), atOnceMs(usual)];
    links[1]!.become(state);
    const took = await sign.inTurn(9).finally(() => links[1]!.become({ kind: 'good' }));
    expect(Math.max(...took)).toBeLessThan(bound);
    if (state.kind !== 'slow' || state.delayMs > 1_000)
      expect(took.filter((ms) => ms > atOnce).length).toBeLessThanOrEqual(1);
    await expect
      .poll(() => sign.one().then(() => client.health()), soon)
      .toMatchObject(PARTIES.map(() => ({ ok: true })));
    links[0]!.become({ kind: 'cut' });
    expect(await sign.one().finally(() => links[0]!.become({ kind: 'good' }))).toBeLessThan(bound);
  });

  it('to each that is slow brings no storm: nobody begins anew where everybody is slow', { retry }, async () => {
    const { sign } = linkedClient();
    const begun = () => links.reduce((sum, link) => sum + link.count('POST /v1/sign/start'), 0);
    const atOnce = atOnceMs(await sign.inTurn(3));
    for (const link of links) link.become({ kind: 'slow', delayMs: 400 });
    try {
      const before = begun();
      const total = 16;
      const took = await sign.atOnce({ width: 8, total });
      // One that is unlucky may be begun anew; a storm is as many again.
      expect(begun() - before).toBeLessThanOrEqual(total + 4);
      expect(Math.max(...took)).toBeLessThan(60_000);
    } finally {
      for (const link of links) link.become({ kind: 'good' });
    }
    await expect.poll(() => sign.one(), soon).toBeLessThan(atOnce);
  });
});

it('a signer that refuses what the others sign stops nothing: two decide', async () => {
  const dir = signers.dataDirOf(3);
  await signers.kill(3, 'SIGTERM');
  renameSync(dir, `${dir}-away`);
  mkdirSync(dir, { mode: 0o700 });
  await signers.restart(3);
  try {
    const { sign } = newClient();
    await expect(sign.inTurn(6)).resolves.toHaveLength(6);
    await signers.kill(2);
    const alone = sign.one();
    await expect(alone).rejects.toThrow(SignerUnavailable);
    await expect(alone).rejects.toThrow(/there is no key ckey_main/);
    await signers.restart(2);
  } finally {
    await signers.kill(3, 'SIGTERM');
    rmSync(dir, { recursive: true });
    renameSync(`${dir}-away`, dir);
    await signers.restart(3);
  }
});
